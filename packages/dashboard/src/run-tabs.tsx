// What a run's page shows below its timeline: changes, conversation, journal, effects, checks, cost and graph.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
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
import { Effects, FileChanges, JsonText, PointSelect, ValueChanges, diffPath } from "./diff-view.tsx";
import { useQuery } from "./live.ts";
import { LogView, Messages, Transcript } from "./output-view.tsx";
import { messagesOf } from "./output.ts";
import { Box, Empty, Loaded, PageCommand, Table, Text, Trail, go } from "./parts.tsx";
import { CostTable } from "./report-body.tsx";
import { type At, type Point, addressOf, runRoute } from "./router.ts";
import { newestEntries } from "./rows.ts";
import { clock, failuresOf, money, moment, plural, scoreWord } from "./words.ts";

export function NowTab({ page }: { readonly page: RunPage }): JSX.Element {
  const { row, notes, issueText } = page;
  const changed = issueText !== null && issueText.now !== null && issueText.now !== issueText.before;
  return (
    <div class="now">
      <LogView run={row.key} />
      {notes.length === 0 && issueText === null ? null : (
        <aside class="notes spaced" aria-label="Notes">
          {notes.length === 0 ? null : (
            <section>
              <h2>Messages</h2>
              <ul>
                {notes.map(({ at, text }, index) => (
                  <li key={index}>
                    <time class="meta num" dateTime={at}>
                      {moment(at, Date.now())}
                    </time>
                    <Text as="p">{text}</Text>
                  </li>
                ))}
              </ul>
            </section>
          )}
          {issueText === null ? null : (
            <section>
              <h2>{changed ? "Task, then and now" : "Task"}</h2>
              <Box label="Task">{issueText.before}</Box>
              {changed ? (
                <Box label="Task now" class="task-now">
                  {issueText.now ?? ""}
                </Box>
              ) : null}
            </section>
          )}
        </aside>
      )}
    </div>
  );
}

export function ChangesTab(props: {
  readonly here: At<"run">;
  readonly checkpoints: readonly CheckpointSummary[];
  readonly between: readonly [Point, Point];
}): JSX.Element {
  const { here, checkpoints, between } = props;
  const [a, b] = between;
  const points = [addressOf(here.run, a), addressOf(here.run, b)] as const;
  const query = useQuery<Changes>(diffPath(...points));
  const set = (points: readonly [Point, Point]): void =>
    go({ ...runRoute(here.run, "changes"), between: points }, "replace");
  const select = { checkpoints, start: "start of the run" };
  return (
    <>
      <div class="pane-head">
        <PointSelect {...select} label="Compare from" value={a} onSet={(point) => set([point ?? "base", b])} />
        <span aria-hidden="true">→</span>
        <PointSelect {...select} label="Compare to" value={b} onSet={(point) => set([a, point ?? "base"])} />
        {query.data === null ? null : <ChangesSummary changes={query.data} />}
      </div>
      <Loaded query={query} rows={8}>
        {(changes) => (
          <>
            <FileChanges
              points={points}
              changes={changes}
              file={here.file}
              onFile={(file) => go({ ...here, tab: "changes", between, file }, "replace")}
            />
            <OtherPlanes changes={changes} />
            <PageCommand text={changes.command} />
          </>
        )}
      </Loaded>
    </>
  );
}

function ChangesSummary({ changes }: { readonly changes: Changes }): JSX.Element {
  const same = changes.files?.length === 0 && changes.values.length === 0 && changes.effects.length === 0;
  return (
    <span class="meta">{same ? "same files, same state" : `${plural(changes.values.length, "value")} changed`}</span>
  );
}

function OtherPlanes({ changes }: { readonly changes: Changes }): JSX.Element {
  const { values, conversation, effects } = changes;
  const plane = (title: string, count: number, open: boolean, children: JSX.Element | null): JSX.Element => (
    <details open={open}>
      <summary>
        {title} <span class="count num">{count}</span>
      </summary>
      {children}
    </details>
  );
  return (
    <div class="planes">
      {plane(
        "State",
        values.length,
        values.length > 0 && values.length <= 12,
        <ValueChanges values={values} more={changes.moreValues} />,
      )}
      {conversation === null
        ? null
        : plane("Conversation", conversation.messages, true, <Messages messages={messagesOf(conversation.text)} />)}
      {effects.length === 0 ? null : plane("Effects", effects.length, true, <Effects effects={effects} />)}
    </div>
  );
}

export function ConversationTab({ row }: { readonly row: RunRow }): JSX.Element {
  const { latest } = row.run;
  const query = useQuery<CheckpointPage>(
    latest === null ? null : `/api/runs/${row.key}/checkpoints/${latest.sequence}`,
  );
  const none = <Empty title="No agent conversation was saved yet." />;
  if (latest === null) return none;
  return (
    <Loaded query={query}>
      {({ conversation }) =>
        conversation === null || conversation.href === null ? (
          none
        ) : (
          <>
            <Text as="p" class="meta">
              {`${conversation.agent}, session ${conversation.session ?? "none"}, as of checkpoint ${latest.sequence}`}
            </Text>
            <Transcript key={conversation.href} href={conversation.href} size={conversation.bytes} />
          </>
        )
      }
    </Loaded>
  );
}

export function JournalTab({ here }: { readonly here: At<"run"> }): JSX.Element {
  const { run } = here;
  const path = `/api/runs/${run}/entries`;
  const query = useQuery<EntriesPage>(path, [`run:${run}`], (page, event) => {
    if (event.event !== "entry" || event.data.key !== run) return page;
    const newest = Math.max(0, ...page.entries.map(({ entry }) => entry));
    if (event.data.entry <= newest) return page;
    if (event.data.entry > newest + 1) return "again";
    const { entry, kind, at, epoch, text } = event.data;
    return { ...page, entries: [...page.entries, { entry, kind, at, epoch, text }] };
  });
  const [older, setOlder] = useState<readonly EntryHeader[]>([]);
  const [from, setFrom] = useState<number | null>(null);
  const more = useQuery<EntriesPage>(from === null ? null : `${path}?before=${from}`);
  const fetched = from === null || more.data === null ? [] : more.data.entries;
  const toggle = (entry: number): void =>
    go({ ...runRoute(run, "journal"), entry: entry === here.entry ? null : entry }, "replace");
  return (
    <Loaded query={query} rows={8}>
      {(page) => {
        const entries = newestEntries([...older, ...fetched, ...page.entries]);
        const oldest = entries.at(-1)?.entry ?? 1;
        return (
          <>
            {entries.some(({ entry }) => entry === here.entry) || here.entry === null ? null : (
              <EntryAlone key={here.entry} path={path} entry={here.entry} onToggle={toggle} />
            )}
            <div role="list" aria-label="Entries, newest first">
              <Chunks items={entries} rowHeight={28}>
                {(entry) => (
                  <EntryRow
                    key={entry.entry}
                    path={path}
                    entry={entry}
                    open={entry.entry === here.entry}
                    onToggle={toggle}
                  />
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
      }}
    </Loaded>
  );
}

/** The entry of the address, which is older than those of the list. */
function EntryAlone(props: {
  readonly path: string;
  readonly entry: number;
  readonly onToggle: (entry: number) => void;
}): JSX.Element {
  const query = useQuery<Entry>(`${props.path}/${props.entry}`);
  return (
    <Loaded query={query} rows={2}>
      {(entry) => <EntryRow {...props} entry={entry} open />}
    </Loaded>
  );
}

function EntryRow(props: {
  readonly path: string;
  readonly entry: EntryHeader;
  readonly open: boolean;
  readonly onToggle: (entry: number) => void;
}): JSX.Element {
  const { entry, kind, at, text } = props.entry;
  const [box, setBox] = useState<HTMLElement | null>(null);
  useEffect(() => {
    if (props.open) box?.scrollIntoView({ block: "nearest" });
  }, [box]);
  return (
    <div role="listitem" class="entry" ref={setBox}>
      <button type="button" class="row-button" aria-expanded={props.open} onClick={() => props.onToggle(entry)}>
        <span class="num meta entry-number">{entry}</span>
        <time class="num meta" dateTime={at}>
          {clock(at, true)}
        </time>
        <code class="score">{kind}</code>
        <Text class="entry-text">{text}</Text>
      </button>
      {props.open ? <EntryBody path={`${props.path}/${entry}`} /> : null}
    </div>
  );
}

function EntryBody({ path }: { readonly path: string }): JSX.Element {
  const query = useQuery<Entry>(path);
  return (
    <Loaded query={query} rows={2}>
      {({ body }) => <JsonText value={body} />}
    </Loaded>
  );
}

export function EffectsTab({ run }: { readonly run: string }): JSX.Element {
  const query = useQuery<readonly EffectRow[]>(`/api/runs/${run}/effects`, ["runs"], (rows, event) =>
    event.event === "run" && event.data.key === run ? "again" : rows,
  );
  return <Loaded query={query}>{(effects) => <Effects effects={effects} />}</Loaded>;
}

export function ChecksTab({ row }: { readonly row: RunRow }): JSX.Element {
  const { checks, scores } = row;
  if (checks.length === 0 && scores.length === 0)
    return <Empty title="No check of the run's own changes has finished." />;
  return (
    <Table
      head={["Check", "Results, oldest first", "Now"]}
      rows={[
        ...checks.map(({ name, trail }) => [
          <Text>{name}</Text>,
          <>
            <Trail trail={trail} />
            <SameFailure trail={trail} />
          </>,
          trail.at(-1) === true ? "passes" : "fails",
        ]),
        ...(scores.length === 0
          ? []
          : [["score", scores.map(scoreWord).join(" · "), `best ${scoreWord(Math.max(...scores))}`]]),
      ]}
    />
  );
}

function SameFailure({ trail }: { readonly trail: readonly boolean[] }): JSX.Element | null {
  const failures = failuresOf(trail);
  return failures < 3 ? null : <span class="meta"> fails {failures} times in a row</span>;
}

export function CostTab(props: { readonly row: RunRow; readonly timeline: Timeline | null }): JSX.Element {
  const { budget } = props.row;
  const hours = (budget?.spent.milliseconds ?? 0) / 3_600_000;
  return (
    <>
      {budget?.spent.microUsd == null || hours < 0.02 ? null : (
        <p class="meta">{money(budget.spent.microUsd / hours)} in an hour of work</p>
      )}
      {props.timeline === null || props.timeline.spans.length === 0 ? (
        <Empty title="Nothing was spent yet." />
      ) : (
        <CostTable timeline={props.timeline} end={Date.parse(props.timeline.to)} />
      )}
    </>
  );
}
