// The page of a run: why it stopped, what it does now, its timeline, and its tabs.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Action, AllowedAction, LiveEvent, ReasonCard, RunPage, RunRow, RunsPage, Timeline } from "./api.ts";
import { Question } from "./inbox.tsx";
import { useKeys } from "./keys.tsx";
import { afterEntry, useCheckpoints, useQuery } from "./live.ts";
import {
  A,
  Age,
  Box,
  Command,
  Fact,
  Gauges,
  Heading,
  Icon,
  IconButton,
  Loaded,
  PageCommand,
  RowFacts,
  RunHead,
  Skeleton,
  StatusChip,
  Tabs,
  Text,
  copy,
  go,
} from "./parts.tsx";
import { Actions, askPlan } from "./plan-sheet.tsx";
import { type At, NO_FILTER, type Point, TABS, type Tab, checkpointRoute, runRoute } from "./router.ts";
import { actWord, nowWord, tabCommand } from "./rows.ts";
import { ChangesTab, ChecksTab, ConversationTab, CostTab, EffectsTab, JournalTab, NowTab } from "./run-tabs.tsx";
import { openTitle, useNow, useProgram } from "./store.ts";
import { GraphView, TeamView } from "./team.tsx";
import { TimelineView } from "./timeline-view.tsx";
import { localTimes, toneOf } from "./words.ts";

export default function RunPageView({ here }: { readonly here: At<"run"> }): JSX.Element {
  const { run } = here;
  const query = useQuery<RunPage>(`/api/runs/${run}`, ["runs", `run:${run}`], followRun);
  return (
    <>
      {query.data === null ? (
        <Heading>
          <Text>{run}</Text>
        </Heading>
      ) : null}
      <Loaded query={query} rows={8}>
        {(page) => <RunView here={here} page={page} />}
      </Loaded>
    </>
  );
}

function RunView({ here, page }: { readonly here: At<"run">; readonly page: RunPage }): JSX.Element {
  const { run } = here;
  const { row, undo, inbox, reasonCard } = page;
  const path = `/api/runs/${run}`;
  const timeline = useQuery<Timeline>(`${path}/timeline`, [`run:${run}`], afterEntry(run));
  const runs = useQuery<RunsPage>("/api/runs");
  const program = useProgram(run);
  useEffect(() => {
    openTitle.set(row.title === row.run.id ? "" : row.title);
    return () => openTitle.set("");
  }, [row.title]);
  const [chosen, setChosen] = useState<number | null>(null);
  const list = useCheckpoints(run);
  const sequences = list.map(({ sequence }) => sequence).toSorted((x, y) => x - y);
  const between = betweenOf(here, sequences);
  const [a, b] = between;
  const selected = chosen ?? sequences.at(-1) ?? null;
  // Those of a team are there if the run has one, or if the address asks for them.
  const tabs = TABS.filter((tab) => (tab !== "graph" && tab !== "team") || tab === here.tab || page[tab] !== null);
  // On a tab the user came for something else: the question is one line.
  const brief = here.tab !== "now";
  const show = (tab: Tab): void => go(runRoute(run, tab), "replace");
  const compare = (points: readonly [Point, Point]): void =>
    go({ ...runRoute(run, "changes"), between: points }, "replace");
  const step = (by: number): void => {
    const at = selected === null ? -1 : sequences.indexOf(selected);
    setChosen(sequences[Math.min(sequences.length - 1, Math.max(0, at + by))] ?? null);
  };
  const otherRun = (by: number): void => {
    const keys = (runs.data?.rows ?? []).map(({ key }) => key);
    const next = keys[keys.indexOf(run) + by];
    if (next !== undefined) go(runRoute(next, here.tab));
  };
  /** Plans an action on the selected checkpoint. A server that is read-only allows none. */
  const act = (action: (sequence: number) => Action): void => {
    if (selected !== null && page.actions.length > 0) askPlan(action(selected));
  };
  useKeys({
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    "[": () => selected !== null && compare([selected, b]),
    "]": () => selected !== null && compare([a, selected]),
    d: () => show("changes"),
    Enter: () => selected !== null && go(checkpointRoute(run, selected)),
    Escape: () => go({ page: "runs", filter: NO_FILTER }),
    J: () => otherRun(1),
    K: () => otherRun(-1),
    u: () => undo !== null && askPlan(undo.action),
    r: () => act((sequence) => ({ kind: "restore", run, sequence, paths: null })),
    f: () => act((sequence) => ({ kind: "fork", run, sequence, as: null })),
    t: () => act((sequence) => ({ kind: "tag", run, sequence, name: "" })),
    // A question on the page has them for its options.
    ...(inbox === null || brief
      ? Object.fromEntries(tabs.map((tab, index) => [String(index + 1), () => show(tab)]))
      : {}),
  });
  return (
    <>
      <RunHead
        repository={row.repository}
        run={<Text as="code">{row.run.id}</Text>}
        title={
          <Heading>
            <Text>{row.title}</Text>
          </Heading>
        }
        actions={<RunActions actions={page.actions} report={row.key} />}
      />
      <p class="facts">
        <StatusChip row={row} />
        <NowLine row={row} />
      </p>
      <Facts page={page} />
      {inbox === null ? (
        reasonCard !== null && <Reason card={reasonCard} />
      ) : brief ? (
        <div class="undo-strip asks">
          <Icon name="you" />
          <Text as="span">{localTimes(inbox.title, Date.now())}</Text>
          <A to={{ page: "inbox", run: row.key }} class="button">
            {actWord(row)}
          </A>
        </div>
      ) : (
        <Question key={inbox.row.run.entries} item={inbox} inRun commands={reasonCard?.commands ?? []} />
      )}
      {undo === null ? null : (
        <div class="undo-strip">
          <Icon name="undo" />
          <Text as="span">{undo.text}</Text>
          <Actions actions={[{ label: "Undo", action: undo.action, why: null }]} />
        </div>
      )}
      {timeline.data === null ? (
        <Skeleton />
      ) : (
        <TimelineView
          run={run}
          timeline={timeline.data}
          checkpoints={list}
          live={row.run.status.kind === "running"}
          tone={toneOf(row.run.status)}
          brief={brief}
          selected={chosen}
          handles={list.length > 1 && typeof b === "number" && a !== "worktree" ? [a === "base" ? 0 : a, b] : null}
          onHandles={([from, to]) => compare([from || "base", to || "base"])}
        />
      )}
      <Tabs
        label="Parts of the run"
        shown={here.tab}
        onShow={show}
        tabs={tabs.map((key) => ({ key, label: key.charAt(0).toUpperCase() + key.slice(1) }))}
      >
        {here.tab === "now" ? <NowTab page={page} /> : null}
        {here.tab === "changes" ? <ChangesTab here={here} checkpoints={list} between={between} /> : null}
        {here.tab === "conversation" ? <ConversationTab row={row} /> : null}
        {here.tab === "journal" ? <JournalTab here={here} /> : null}
        {here.tab === "effects" ? <EffectsTab run={run} /> : null}
        {here.tab === "checks" ? <ChecksTab row={row} /> : null}
        {here.tab === "cost" ? <CostTab row={row} timeline={timeline.data} /> : null}
        {here.tab === "graph" ? <GraphView graph={page.graph} /> : null}
        {here.tab === "team" ? <TeamView team={page.team} /> : null}
      </Tabs>
      {here.tab === "changes" ? null : <PageCommand text={`${program} ${tabCommand(here, row)}`} />}
    </>
  );
}

function followRun(page: RunPage, event: LiveEvent): RunPage | "again" {
  const { key, run } = page.row;
  if (event.event === "removed" && event.data.key === key) return "again";
  if (event.event !== "run" || event.data.key !== key) return page;
  const { run: now, group } = event.data;
  const same = now.entries === run.entries && now.status.kind === run.status.kind && group === page.row.group;
  // A heartbeat changes only the row.
  return same ? { ...page, row: event.data } : "again";
}

/** What the tab `changes` compares unless the address says it: all that the run has done. */
function betweenOf(here: At<"run">, sequences: readonly number[]): readonly [Point, Point] {
  if (here.between !== null) return here.between;
  const newest = sequences.at(-1);
  if (newest === undefined) return ["base", "worktree"];
  // Without its first checkpoint, the files that it began with.
  return [sequences[0] === 1 && newest > 1 ? 1 : "base", newest];
}

function RunActions(props: { readonly actions: readonly AllowedAction[]; readonly report: string }): JSX.Element {
  // What ends a run is one step further away.
  const first = props.actions
    .filter(({ action, why }) => why === null && action.kind !== "abort" && action.kind !== "remove")
    .slice(0, 2);
  return (
    <div class="flex">
      <Actions actions={first} />
      <details class="menu">
        <summary class="button" aria-label="More actions">
          <Icon name="more" />
        </summary>
        <div class="menu-body">
          <Actions actions={props.actions.filter((action) => !first.includes(action))} />
          <A to={{ page: "report", run: props.report }} class="menu-link">
            Report on one page
          </A>
        </div>
      </details>
    </div>
  );
}

function NowLine({ row }: { readonly row: RunRow }): JSX.Element {
  const { status } = row.run;
  const now = useNow(1000);
  return (
    <>
      <Text class="num">{nowWord(row, now)}</Text>
      {status.kind !== "running" ? null : (
        <span class="meta heartbeat">
          heartbeat <Age at={status.holder.heartbeatAt} every={1000} ago />
        </span>
      )}
    </>
  );
}

function Facts({ page }: { readonly page: RunPage }): JSX.Element {
  const { row, worktree } = page;
  const { run, budget } = row;
  return (
    <>
      <dl class="run-facts">
        <RowFacts row={row} />
        <Fact title="Crashes">{row.crashes === 0 ? null : `survived ${row.crashes}`}</Fact>
        <Fact title="Forked from" class="mono">
          {run.forkedFrom === null ? null : <ForkedFrom repository={row.repository} id={run.forkedFrom.id} />}
        </Fact>
        <Fact title="Checkpoints">{run.checkpoints}</Fact>
        <Fact title="Worktree" class="mono fact-long">
          {worktree === null ? null : (
            <>
              <Text>{worktree}</Text>
              <IconButton icon="copy" label="Copy the path of the worktree" onClick={() => void copy(worktree)} />
            </>
          )}
        </Fact>
      </dl>
      {budget === null ? null : <Gauges budget={budget} />}
    </>
  );
}

function ForkedFrom({ repository, id }: { readonly repository: string; readonly id: string }): JSX.Element {
  const [run = "", sequence = ""] = id.split("@");
  const key = `${repository}/${run}`;
  return <A to={Number(sequence) > 0 ? checkpointRoute(key, Number(sequence)) : runRoute(key)}>{id}</A>;
}

function Reason({ card }: { readonly card: ReasonCard }): JSX.Element {
  return (
    <section class="card reason" aria-labelledby="why">
      <h2 id="why">{card.title}</h2>
      <Text as="p" class="strong">
        {localTimes(card.cause, Date.now())}
      </Text>
      <Text as="p" class="meta">
        {card.why}
      </Text>
      {card.tail.length === 0 ? null : <Box label="End of the output">{card.tail.join("\n")}</Box>}
      <div class="buttons">
        {card.commands.map((command) => (
          <Command key={command} text={command} />
        ))}
      </div>
    </section>
  );
}
