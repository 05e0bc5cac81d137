// The page of a run: why it stopped, what it does now, its timeline, and its tabs.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { AllowedAction, CheckpointsPage, LiveEvent, ReasonCard, RunPage, Timeline } from "./api.ts";
import { Question } from "./inbox.tsx";
import { useKeys } from "./keys.tsx";
import { connection, useQuery } from "./live.ts";
import {
  A,
  Age,
  Command,
  Gauges,
  Icon,
  Outside,
  PageCommand,
  ProblemCard,
  Repository,
  Scores,
  Skeleton,
  StatusChip,
  Tabs,
  Text,
  Trail,
  go,
} from "./parts.tsx";
import { Actions, askPlan } from "./plan-sheet.tsx";
import { NO_FILTER, type Point, type Route, TABS, type Tab, checkpointRoute, runRoute } from "./router.ts";
import { whereOf } from "./rows.ts";
import {
  ChangesTab,
  ChecksTab,
  ConversationTab,
  CostTab,
  EffectsTab,
  GraphTab,
  JournalTab,
  NowTab,
} from "./run-tabs.tsx";
import { useNow, useStore } from "./store.ts";
import { TimelineView } from "./timeline-view.tsx";
import { duration } from "./words.ts";

type RunRoute = Extract<Route, { readonly page: "run" }>;

const LABELS: Readonly<Record<Tab, string>> = {
  now: "Now",
  changes: "Changes",
  conversation: "Conversation",
  journal: "Journal",
  effects: "Effects",
  checks: "Checks",
  cost: "Cost",
  graph: "Graph",
};

export default function RunPageView({ here }: { readonly here: RunRoute }): JSX.Element {
  const { run } = here;
  const path = `/api/runs/${run}`;
  const page = useQuery<RunPage>(path, ["runs", `run:${run}`], (data, event) => followRun(data, event));
  const follow = <T,>(data: T, event: LiveEvent): T | "again" =>
    event.event === "entry" && event.data.key === run ? "again" : data;
  const timeline = useQuery<Timeline>(`${path}/timeline`, [`run:${run}`], follow);
  const checkpoints = useQuery<CheckpointsPage>(`${path}/checkpoints?limit=200`, [`run:${run}`], (data, event) =>
    event.event === "entry" && event.data.key === run && /checkpoint|tag/.test(event.data.kind) ? "again" : data,
  );
  const [chosen, setChosen] = useState<number | null>(null);
  if (page.data === null)
    return page.problem === null ? (
      <>
        <h1 tabIndex={-1} class="sr-only">
          {run}
        </h1>
        <Skeleton rows={8} />
      </>
    ) : (
      <>
        <h1 tabIndex={-1}>
          <Text>{run}</Text>
        </h1>
        <ProblemCard problem={page.problem} />
      </>
    );

  const list = checkpoints.data?.checkpoints ?? [];
  const sequences = list.map(({ sequence }) => sequence).toSorted((x, y) => x - y);
  const between = betweenOf(here, sequences);
  const [a, b] = between;
  const handles = typeof a === "number" && typeof b === "number" ? ([a, b] as const) : null;
  const newest = sequences.at(-1) ?? null;
  const selected = chosen ?? newest;
  const show = (tab: Tab): void => go({ ...here, tab, between: null, file: null }, "replace");
  const compare = (points: readonly [Point, Point]): void =>
    go({ ...here, tab: "changes", between: points, file: null }, "replace");
  const step = (by: number): void => {
    const at = selected === null ? -1 : sequences.indexOf(selected);
    setChosen(sequences[Math.min(sequences.length - 1, Math.max(0, at + by))] ?? null);
  };
  return (
    <RunView
      page={page.data}
      brief={here.tab !== "now"}
      keys={{
        ArrowLeft: () => step(-1),
        ArrowRight: () => step(1),
        "[": () => selected !== null && compare([selected, b]),
        "]": () => selected !== null && compare([a, selected]),
        d: () => show("changes"),
        Enter: () => selected !== null && go(checkpointRoute(run, selected)),
        Escape: () => go({ page: "runs", filter: NO_FILTER }),
        ...Object.fromEntries(TABS.map((tab, index) => [String(index + 1), () => show(tab)])),
      }}
    >
      {timeline.data === null ? (
        <Skeleton />
      ) : (
        <TimelineView
          run={run}
          timeline={timeline.data}
          checkpoints={list}
          live={page.data.row.run.status.kind === "running"}
          brief={here.tab !== "now"}
          handles={handles}
          onHandles={compare}
        />
      )}
      <Tabs
        label="Parts of the run"
        shown={here.tab}
        onShow={show}
        tabs={TABS.filter((tab) => tab !== "graph" || page.data?.graph != null).map((key) => ({
          key,
          label: LABELS[key],
        }))}
      >
        <TabPanel here={here} page={page.data} timeline={timeline.data} checkpoints={list} between={between} />
      </Tabs>
      {here.tab === "changes" ? null : <PageCommand text={page.data.command} />}
    </RunView>
  );
}

function followRun(page: RunPage, event: LiveEvent): RunPage | "again" {
  const { key, run } = page.row;
  if (event.event === "removed" && event.data.key === key) return "again";
  if (event.event !== "run" || event.data.key !== key) return page;
  const same = event.data.run.entries === run.entries && event.data.run.status.kind === run.status.kind;
  // A heartbeat changes only the row.
  return same ? { ...page, row: event.data } : "again";
}

/** What the tab `changes` compares unless the address says it: the last two checkpoints. */
function betweenOf(here: RunRoute, sequences: readonly number[]): readonly [Point, Point] {
  if (here.between !== null) return here.between;
  const newest = sequences.at(-1);
  if (newest === undefined) return ["base", "worktree"];
  return [sequences.at(-2) ?? "base", newest];
}

function TabPanel(props: {
  readonly here: RunRoute;
  readonly page: RunPage;
  readonly timeline: Timeline | null;
  readonly checkpoints: CheckpointsPage["checkpoints"];
  readonly between: readonly [Point, Point];
}): JSX.Element {
  const { here, page } = props;
  switch (here.tab) {
    case "now":
      return <NowTab page={page} />;
    case "changes":
      return <ChangesTab here={here} checkpoints={props.checkpoints} between={props.between} />;
    case "conversation":
      return <ConversationTab row={page.row} />;
    case "journal":
      return <JournalTab row={page.row} />;
    case "effects":
      return <EffectsTab run={here.run} />;
    case "checks":
      return <ChecksTab row={page.row} />;
    case "cost":
      return <CostTab row={page.row} timeline={props.timeline} />;
    case "graph":
      return <GraphTab graph={page.graph} />;
  }
}

function RunView(props: {
  readonly page: RunPage;
  /** One of the tabs is what the user came for: the question is one line. */
  readonly brief: boolean;
  readonly keys: Readonly<Record<string, () => void>>;
  readonly children: ComponentChildren;
}): JSX.Element {
  const { page } = props;
  const { row, undo, inbox, reasonCard } = page;
  const possible = page.actions.filter(({ why }) => why === null);
  const restore = page.actions.find(({ action }) => action.kind === "restore");
  useKeys({
    ...props.keys,
    u: () => undo !== null && askPlan(undo.action),
    r: () => restore !== undefined && askPlan(restore.action),
  });
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <p class="crumbs meta">
            <A to={{ page: "runs", filter: NO_FILTER }}>Runs</A>
            <span aria-hidden="true">/</span>
            <Repository name={row.repository} />
            <span aria-hidden="true">/</span>
            <code>
              <Text>{row.run.id}</Text>
            </code>
          </p>
          <h1 tabIndex={-1}>
            <Text>{row.title}</Text>
          </h1>
        </div>
        <RunActions possible={possible} all={page.actions} report={row.key} />
      </div>
      <p class="facts">
        <StatusChip row={row} />
        <NowLine page={page} />
      </p>
      <Facts page={page} />
      {undo === null ? null : (
        <div class="undo-strip">
          <Icon name="restore" />
          <span>
            <Text>{undo.text}</Text>
          </span>
          <button type="button" onClick={() => askPlan(undo.action)} aria-keyshortcuts="u">
            <Icon name="undo" /> Undo…
          </button>
        </div>
      )}
      {inbox !== null && !props.brief ? (
        <Question item={inbox} inRun commands={reasonCard?.commands ?? []} />
      ) : inbox !== null ? (
        <div class="undo-strip asks">
          <Icon name="you" />
          <span>
            <Text>{inbox.title}</Text>
          </span>
          <A to={{ page: "inbox", run: row.key }} class="button">
            Answer
          </A>
        </div>
      ) : reasonCard === null ? null : (
        <Reason card={reasonCard} />
      )}
      {props.children}
    </>
  );
}

function RunActions(props: {
  readonly possible: readonly AllowedAction[];
  readonly all: readonly AllowedAction[];
  readonly report: string;
}): JSX.Element {
  const { possible, all } = props;
  // What ends a run is one step further away.
  const first = possible.filter(({ action }) => action.kind !== "abort" && action.kind !== "remove").slice(0, 2);
  const rest = all.filter((action) => !first.includes(action));
  return (
    <div class="run-actions">
      <Actions actions={first} />
      <details class="menu">
        <summary class="button" aria-label="More actions">
          <Icon name="more" />
        </summary>
        <div class="menu-body">
          <Actions actions={rest} class="menu-items" />
          <A to={{ page: "report", run: props.report }} class="menu-link">
            Report on one page
          </A>
        </div>
      </details>
    </div>
  );
}

function NowLine({ page }: { readonly page: RunPage }): JSX.Element {
  const { row } = page;
  const { status } = row.run;
  const old = useStore(connection).kind === "old";
  const now = useNow(1000);
  const since =
    row.step === null || status.kind !== "running" ? "" : ` · ${duration(now - Date.parse(row.step.since))}`;
  return (
    <>
      <span class="num">
        <Text>{`${whereOf(row)}${since}`}</Text>
      </span>
      {status.kind === "running" ? (
        <span class={old ? "meta heartbeat heartbeat-old" : "meta heartbeat"}>
          heartbeat <Age at={status.holder.heartbeatAt} every={1000} /> ago
        </span>
      ) : null}
    </>
  );
}

function Facts({ page }: { readonly page: RunPage }): JSX.Element {
  const { row, worktree } = page;
  const { run, branch, issue, pullRequest, budget, scores, checks } = row;
  return (
    <dl class="run-facts">
      {scores.length === 0 ? null : (
        <div>
          <dt>Scores</dt>
          <dd>
            <Scores scores={scores} />
          </dd>
        </div>
      )}
      {checks.slice(0, 3).map(({ name, trail }) => (
        <div key={name}>
          <dt>
            <Text>{name}</Text>
          </dt>
          <dd>
            <Trail trail={trail} />
          </dd>
        </div>
      ))}
      {row.crashes === 0 ? null : (
        <div>
          <dt>Crashes</dt>
          <dd>survived {row.crashes}</dd>
        </div>
      )}
      {issue === null ? null : (
        <div>
          <dt>Issue</dt>
          <dd>
            <Outside link={issue} />
          </dd>
        </div>
      )}
      {pullRequest === null ? null : (
        <div>
          <dt>Pull request</dt>
          <dd>
            <Outside link={pullRequest} />
          </dd>
        </div>
      )}
      {branch === null ? null : (
        <div>
          <dt>Branch</dt>
          <dd class="mono">
            <Text>{branch}</Text>
          </dd>
        </div>
      )}
      {run.forkedFrom === null ? null : (
        <div>
          <dt>Forked from</dt>
          <dd class="mono">
            <ForkedFrom repository={row.repository} id={run.forkedFrom.id} />
          </dd>
        </div>
      )}
      <div>
        <dt>Checkpoints</dt>
        <dd class="num">{run.checkpoints}</dd>
      </div>
      {worktree === null ? null : (
        <div class="fact-long">
          <dt>Worktree</dt>
          <dd class="mono">
            <Text>{worktree}</Text>
          </dd>
        </div>
      )}
      {budget === null ? null : (
        <div class="fact-gauges">
          <dt class="sr-only">Limits</dt>
          <dd>
            <Gauges budget={budget} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function ForkedFrom({ repository, id }: { readonly repository: string; readonly id: string }): JSX.Element {
  const [run = "", sequence = ""] = id.split("@");
  const number = Number(sequence);
  const key = `${repository}/${run}`;
  return <A to={number > 0 ? checkpointRoute(key, number) : runRoute(key)}>{id}</A>;
}

function Reason({ card }: { readonly card: ReasonCard }): JSX.Element {
  return (
    <section class="card reason" aria-labelledby="why">
      <h2 id="why">Why it stopped</h2>
      <p class="cause">
        <Text>{card.cause}</Text>
      </p>
      {card.why === null ? null : (
        <p class="meta">
          <Text>{card.why}</Text>
        </p>
      )}
      {card.tail.length === 0 ? null : (
        <pre class="tail" role="region" tabIndex={0} aria-label="End of the output">
          <Text>{card.tail.join("\n")}</Text>
        </pre>
      )}
      <div class="buttons">
        {card.commands.map((command) => (
          <Command key={command} text={command} />
        ))}
      </div>
    </section>
  );
}
