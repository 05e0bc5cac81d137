// What a run's page shows below its timeline: changes, conversation, journal, effects, checks, cost and graph.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { Json } from "@holdfast/core/json";
import type {
  Changes,
  CheckpointPage,
  EffectRow,
  EntriesPage,
  Entry,
  EntryHeader,
  RunPage,
  RunRow,
  Timeline,
} from "./api.ts";
import { Chunks } from "./chunks.tsx";
import { Effects, FileChanges, ValueChanges, diffPath } from "./diff-view.tsx";
import { useQuery } from "./live.ts";
import { LogView, Transcript } from "./output-view.tsx";
import { Empty, Gauges, Icon, PageCommand, ProblemCard, Skeleton, Text, Trail, go } from "./parts.tsx";
import { type Point, type Route, addressOf, parsePoint } from "./router.ts";
import { costByStage } from "./timeline.ts";
import { clock, duration, money, moment, short } from "./words.ts";

type RunRoute = Extract<Route, { readonly page: "run" }>;

export function NowTab({ page }: { readonly page: RunPage }): JSX.Element {
  const { row, notes, issueText } = page;
  const live = row.run.status.kind === "running";
  return (
    <div class="now">
      <LogView run={row.key} live={live} />
      {notes.length === 0 && issueText === null ? null : (
        <aside class="notes" aria-label="Notes">
          {notes.length === 0 ? null : (
            <section>
              <h2>Messages</h2>
              <ul>
                {notes.map(({ at, text }, index) => (
                  <li key={index}>
                    <time class="meta num" dateTime={at}>
                      {moment(at, Date.now())}
                    </time>
                    <p>
                      <Text>{text}</Text>
                    </p>
                  </li>
                ))}
              </ul>
            </section>
          )}
          {issueText === null ? null : (
            <section>
              <h2>{issueText.now === null || issueText.now === issueText.before ? "Task" : "Task, then and now"}</h2>
              <pre class="task">
                <Text>{issueText.before}</Text>
              </pre>
              {issueText.now === null || issueText.now === issueText.before ? null : (
                <pre class="task task-now">
                  <Text>{issueText.now}</Text>
                </pre>
              )}
            </section>
          )}
        </aside>
      )}
    </div>
  );
}

export function ChangesTab(props: {
  readonly here: RunRoute;
  readonly checkpoints: readonly CheckpointSummary[];
  readonly between: readonly [Point, Point];
}): JSX.Element {
  const { here, checkpoints, between } = props;
  const [a, b] = between;
  const points = [addressOf(here.run, a), addressOf(here.run, b)] as const;
  const { data, problem } = useQuery<Changes>(diffPath(...points));
  const set = (points: readonly [Point, Point]): void =>
    go({ ...here, tab: "changes", between: points, file: null }, "replace");
  const options = [...checkpoints].toSorted((x, y) => y.sequence - x.sequence);
  const choice = (name: string, value: Point, onSet: (point: Point) => void): JSX.Element => (
    <select
      aria-label={name}
      value={String(value)}
      onChange={(event) => onSet(parsePoint(event.currentTarget.value) ?? "base")}
    >
      <option value="worktree">files now</option>
      {options.map(({ sequence, stage, iteration }) => (
        <option key={sequence} value={String(sequence)}>
          {`@${sequence} ${stage}${iteration > 0 ? ` #${iteration}` : ""}`}
        </option>
      ))}
      <option value="base">start of the run</option>
    </select>
  );
  return (
    <>
      <div class="pane-head">
        {choice("Compare from", a, (point) => set([point, b]))}
        <span aria-hidden="true">→</span>
        {choice("Compare to", b, (point) => set([a, point]))}
        {data === null ? null : <ChangesSummary changes={data} />}
      </div>
      {problem === null ? null : <ProblemCard problem={problem} />}
      {data === null ? (
        problem === null ? (
          <Skeleton rows={8} />
        ) : null
      ) : (
        <>
          <FileChanges
            points={points}
            changes={data}
            file={here.file}
            onFile={(file) => go({ ...here, tab: "changes", between, file }, "replace")}
          />
          <OtherPlanes changes={data} />
          <PageCommand text={data.command} />
        </>
      )}
    </>
  );
}

function ChangesSummary({ changes }: { readonly changes: Changes }): JSX.Element {
  const same = changes.files?.length === 0 && changes.values.length === 0 && changes.effects.length === 0;
  return <span class="meta">{same ? "same files, same state" : `${changes.values.length} values differ`}</span>;
}

function OtherPlanes({ changes }: { readonly changes: Changes }): JSX.Element {
  return (
    <div class="planes">
      <details open={changes.values.length > 0 && changes.values.length <= 12}>
        <summary>
          State <span class="count num">{changes.values.length}</span>
        </summary>
        <ValueChanges values={changes.values} />
      </details>
      {changes.conversation === null ? null : (
        <details open>
          <summary>
            Conversation <span class="count num">{changes.conversation.messages}</span>
          </summary>
          <p>
            <Text>{changes.conversation.text}</Text>
          </p>
        </details>
      )}
      {changes.effects.length === 0 ? null : (
        <details open>
          <summary>
            Effects <span class="count num">{changes.effects.length}</span>
          </summary>
          <Effects effects={changes.effects} />
        </details>
      )}
    </div>
  );
}

export function ConversationTab({ row }: { readonly row: RunRow }): JSX.Element {
  const { latest } = row.run;
  const { data, problem } = useQuery<CheckpointPage>(
    latest === null ? null : `/api/runs/${row.key}/checkpoints/${latest.sequence}`,
  );
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (latest !== null && data === null) return <Skeleton />;
  const href = data?.conversation?.href ?? null;
  if (data?.conversation == null || href === null) return <Empty title="No agent conversation was saved yet." />;
  return (
    <>
      <p class="meta">
        <Text>{`${data.conversation.agent}, session ${data.conversation.session ?? "none"}, as of checkpoint ${latest?.sequence ?? ""}`}</Text>
      </p>
      <Transcript href={href} size={data.conversation.bytes} />
    </>
  );
}

export function JournalTab({ row }: { readonly row: RunRow }): JSX.Element {
  const path = `/api/runs/${row.key}/entries`;
  const { data, problem } = useQuery<EntriesPage>(path, [`run:${row.key}`], (page, event) => {
    if (event.event !== "entry" || event.data.key !== row.key) return page;
    const newest = Math.max(0, ...page.entries.map(({ entry }) => entry));
    if (event.data.entry <= newest) return page;
    if (event.data.entry > newest + 1) return "again";
    const { entry, kind, at, epoch, text } = event.data;
    return { ...page, entries: [...page.entries, { entry, kind, at, epoch, text }] };
  });
  const [older, setOlder] = useState<readonly EntryHeader[]>([]);
  const [from, setFrom] = useState<number | null>(null);
  const [open, setOpen] = useState<number | null>(null);
  const more = useQuery<EntriesPage>(from === null ? null : `${path}?before=${from}`);
  if (problem !== null && data === null) return <ProblemCard problem={problem} />;
  if (data === null) return <Skeleton rows={8} />;
  const fetched = from === null || more.data === null ? [] : more.data.entries;
  const all = new Map([...older, ...fetched, ...data.entries].map((entry) => [entry.entry, entry]));
  const entries = [...all.values()].toSorted((a, b) => b.entry - a.entry);
  const oldest = entries.at(-1)?.entry ?? 1;
  return (
    <>
      <div class="journal" role="list" aria-label="Entries, newest first">
        <Chunks items={entries} rowHeight={28}>
          {(entry) => (
            <div key={entry.entry} role="listitem" class="entry">
              <button
                type="button"
                aria-expanded={open === entry.entry}
                onClick={() => setOpen(open === entry.entry ? null : entry.entry)}
              >
                <span class="num meta entry-number">{entry.entry}</span>
                <time class="num meta" dateTime={entry.at}>
                  {clock(entry.at, true)}
                </time>
                <code class="entry-kind">{entry.kind}</code>
                <span class="entry-text">
                  <Text>{entry.text}</Text>
                </span>
              </button>
              {open === entry.entry ? <EntryBody path={`${path}/${entry.entry}`} /> : null}
            </div>
          )}
        </Chunks>
      </div>
      {oldest > 1 ? (
        <button
          type="button"
          disabled={from !== null && more.data === null}
          onClick={() => {
            setOlder([...older, ...fetched]);
            setFrom(oldest);
          }}
        >
          Show earlier entries
        </button>
      ) : null}
    </>
  );
}

function EntryBody({ path }: { readonly path: string }): JSX.Element {
  const { data, problem } = useQuery<Entry>(path);
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (data === null) return <Skeleton rows={2} />;
  return <JsonText value={data.body} />;
}

export function JsonText({ value }: { readonly value: Json }): JSX.Element {
  const text = JSON.stringify(value, null, 2);
  const shown = text.length > 100_000 ? `${text.slice(0, 100_000)}\n… ${text.length - 100_000} more characters` : text;
  return (
    <pre class="json" role="region" aria-label="Content" tabIndex={0}>
      <Text>{shown}</Text>
    </pre>
  );
}

export function EffectsTab({ run }: { readonly run: string }): JSX.Element {
  const { data, problem } = useQuery<readonly EffectRow[]>(`/api/runs/${run}/effects`, ["runs"], (rows, event) =>
    event.event === "run" && event.data.key === run ? "again" : rows,
  );
  if (data === null) return problem === null ? <Skeleton /> : <ProblemCard problem={problem} />;
  return <Effects effects={data} />;
}

export function ChecksTab({ row }: { readonly row: RunRow }): JSX.Element {
  if (row.checks.length === 0 && row.scores.length === 0) return <Empty title="Nothing was checked yet." />;
  return (
    <table class="table">
      <thead>
        <tr>
          <th scope="col">Check</th>
          <th scope="col">Results, oldest first</th>
          <th scope="col">Now</th>
        </tr>
      </thead>
      <tbody>
        {row.checks.map(({ name, trail }) => (
          <tr key={name}>
            <th scope="row">
              <Text>{name}</Text>
            </th>
            <td>
              <Trail trail={trail} />
              <SameFailure trail={trail} />
            </td>
            <td>{trail.at(-1) === true ? "passes" : "fails"}</td>
          </tr>
        ))}
        {row.scores.length === 0 ? null : (
          <tr>
            <th scope="row">score</th>
            <td class="num">{row.scores.join(" · ")}</td>
            <td class="num">best {Math.max(...row.scores)}</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function SameFailure({ trail }: { readonly trail: readonly boolean[] }): JSX.Element | null {
  const failures = trail.length - 1 - trail.lastIndexOf(true);
  return failures < 3 ? null : <span class="meta"> fails {failures} times in a row</span>;
}

export function CostTab(props: { readonly row: RunRow; readonly timeline: Timeline | null }): JSX.Element {
  const { row, timeline } = props;
  const stages = timeline === null ? [] : costByStage(timeline.spans, Date.parse(timeline.to));
  const spent = row.budget?.spent;
  const hours = (spent?.milliseconds ?? 0) / 3_600_000;
  return (
    <>
      {row.budget === null ? null : <Gauges budget={row.budget} />}
      {spent?.microUsd == null || hours < 0.02 ? null : (
        <p class="meta">{money(spent.microUsd / hours)} in an hour of work</p>
      )}
      {stages.length === 0 ? (
        <Empty title="Nothing was spent yet." />
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Stage</th>
              <th scope="col" class="right">
                Times
              </th>
              <th scope="col" class="right">
                Cost
              </th>
              <th scope="col" class="right">
                Tokens
              </th>
              <th scope="col" class="right">
                Time
              </th>
            </tr>
          </thead>
          <tbody>
            {stages.map(({ name, times, microUsd, tokens, milliseconds }) => (
              <tr key={name}>
                <th scope="row">
                  <Text>{name}</Text>
                </th>
                <td class="right num">{times}</td>
                <td class="right num">{microUsd === null ? "–" : money(microUsd)}</td>
                <td class="right num">{tokens === null ? "–" : short(tokens)}</td>
                <td class="right num">{duration(milliseconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

interface GraphNode {
  readonly id: string;
  readonly action: string;
  readonly state: string;
  readonly critical: boolean;
  readonly waitsFor: readonly string[];
  readonly reason: string | null;
}

const NODE_TONES: Readonly<Record<string, string>> = {
  complete: "done",
  running: "running",
  interrupted: "crashed",
  failed: "failed",
  unknown: "you",
  skipped: "aborted",
  queued: "queued",
  pending: "queued",
};

/** The task graph by batches: each column can run at the same time. */
export function GraphTab({ graph }: { readonly graph: Json | null }): JSX.Element {
  const { batches, nodes } = readGraph(graph);
  if (nodes.size === 0) return <Empty title="This run has no task graph." />;
  return (
    <ol class="graph">
      {batches.map((batch, index) => (
        <li key={index} class="batch">
          <h2 class="meta">batch {index + 1}</h2>
          <ul>
            {batch.flatMap((id) => {
              const node = nodes.get(id);
              if (node === undefined) return [];
              const tone = NODE_TONES[node.state] ?? "queued";
              return [
                <li key={id} class={`node tone-${tone} ${node.critical ? "node-critical" : ""}`}>
                  <span class="node-head">
                    <b>
                      <Text>{node.id}</Text>
                    </b>
                    <span class="node-state">{node.state}</span>
                  </span>
                  <Text>{node.action}</Text>
                  {node.waitsFor.length === 0 ? null : (
                    <span class="meta">
                      after <Text>{node.waitsFor.join(", ")}</Text>
                    </span>
                  )}
                  {node.reason === null ? null : (
                    <span class="meta">
                      <Icon name="warning" /> <Text>{node.reason}</Text>
                    </span>
                  )}
                </li>,
              ];
            })}
          </ul>
        </li>
      ))}
    </ol>
  );
}

function readGraph(graph: Json | null): {
  readonly batches: readonly (readonly string[])[];
  readonly nodes: ReadonlyMap<string, GraphNode>;
} {
  const fields = typeof graph === "object" && graph !== null ? Object.entries(graph) : [];
  const find = (name: string): unknown => fields.find(([key]) => key === name)?.[1];
  const batches = find("batches");
  const nodes = find("nodes");
  if (!Array.isArray(batches) || !Array.isArray(nodes)) return { batches: [], nodes: new Map() };
  return {
    batches: batches.map((batch: unknown) =>
      Array.isArray(batch) ? batch.filter((id) => typeof id === "string") : [],
    ),
    nodes: new Map(nodes.filter(isGraphNode).map((node) => [node.id, node])),
  };
}

function isGraphNode(value: unknown): value is GraphNode {
  if (typeof value !== "object" || value === null) return false;
  const has = (name: string, type: string): boolean => name in value && typeof Reflect.get(value, name) === type;
  return (
    has("id", "string") &&
    has("action", "string") &&
    has("state", "string") &&
    Array.isArray(Reflect.get(value, "waitsFor"))
  );
}
