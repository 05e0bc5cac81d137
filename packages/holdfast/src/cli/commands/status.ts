/** The `status` command: shows the status of a run and who holds it, once or continuously. */
import { isEnded } from "@holdfast/core/run";
import { statusWord } from "@holdfast/core/status";
import { setTimeout as sleep } from "node:timers/promises";
import type { StartingProcess } from "../../announce-start.ts";
import type { Holdfast, RunOverview } from "../../holdfast.ts";
import type { RunDetails } from "../../run-status.ts";
import { type QueueEntry, createQueueReader } from "../../worker/read-queue.ts";
import { pageLink, runPath } from "../../ui/ui-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { canRedraw, createLiveRegion } from "../live-view.ts";
import { findRun } from "../operands.ts";
import { countsText } from "../output/graph-text.ts";
import type { Page } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { noRuns } from "../output/run-text.ts";
import { compactStatusText, nextText, startingText, statusText, statusesText } from "../output/status-text.ts";
import { escapeText, truncate } from "../output/text.ts";
import { findStarting } from "../run-holder.ts";
import { startingJson, statusJson } from "../run-json.ts";

export const spec = {
  name: "status",
  summary: "show the status of a run, and which process holds it",
  details: [
    "Computed from the journal and the lease, so it is true also when the process of the run was killed. A run is running, queued (for a slot), waiting (for you, quota, the provider, the forge, budget, CI, disk space or the next session), paused, crashed, done, failed or aborted; or saved, if it has only checkpoints that you took by hand. Without an argument: all runs that have not ended. A run without a record yet (its process reads the issue, fetches and plans) is running: starting.",
    "Loops share a limited number of slots (`loops.max`, 4). A loop beyond the limit is rejected, queued with --wait, or started over the limit with --force. The queue is ordered by priority, then by age; `holdfast resume RUN --priority high` changes the priority of a running or queued loop.",
    "A run whose stage works on a task graph shows it too: batches side by side, each node with its state and how long it took, those on the critical path marked with *. A node that was running when its process died is interrupted, and its time is a lower bound. A graph too large for the screen is summed up, one line a batch.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default all that are not finished",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  flags: {
    watch: {
      type: "boolean",
      short: "w",
      about: "update the view until the run ends or Ctrl+C; without RUN until Ctrl+C",
    },
  },
  examples: [
    { line: "holdfast status", about: "all runs that have not ended" },
    { line: "holdfast status issue-42 --watch", about: "watch a run of another terminal" },
    { line: "holdfast status issue-42 --json | jq -r .run.status.kind", about: "for a script" },
  ],
  reads: true,
  json: '{"run": {...}}; without RUN {"at", "runs": [...], "slots": {"limit": N or null, "used": N}}; with --watch one such line with "kind": "status" for each change. A run object also has "resumable", "priority", "submitted" (workers of a queue execute it), "since", "scores", "best", "budget", "graph", "loop", "step", "last", "worktree", "branch", "issue", "pullRequest", "denied", "continues" ("process" or "worker" that continues a run that waits, or null), "restored" (the checkpoint to which it was restored after its end, or null), "restart" (the checkpoint from which `resume RUN@N --force` continues it after its end, or null), "raise" (the flag that raises the limit which ended it, or null), "damaged", "queued" (what `queue` prints of a submitted run, or null if the queue has no entry or cannot be read) and "unpushed" ({"remote", "snapshots", "problem"}: its files that the remote of `files.remote` lacks, or null). The time in "budget" counts on during a call.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0);
  if (typed === undefined && !input.on("watch")) return await showAll(shell, await shell.openIfThere());
  const holdfast = await shell.open({ create: false });
  if (typed === undefined) return await watchAll(shell, holdfast);
  const prepared = await preparedOnly(shell, holdfast, typed, input.on("watch"));
  if (prepared !== undefined) {
    shell.print({ json: () => ({ run: startingJson(prepared) }), text: (page) => startingText(prepared, page) });
    shell.notify(`Stop it: ${shell.talk.program} stop ${stopName(prepared)}`);
    return "done";
  }
  const { id } = await findRun(holdfast, typed);
  if (input.on("watch")) return await watchStatus(shell, holdfast, id);
  await using queue = await openQueue(shell, holdfast);
  const status = await queue.add(await holdfast.status(id));
  const link = pageLink(shell.env, holdfast.store.location, runPath(id));
  shell.print({ json: () => ({ run: shownJson(status), ...link.json }), text: (page) => statusText(status, page) });
  shell.notify(nextText(status, shell.talk));
  shell.notify(link.text);
  return "done";
}

/** The process that prepares a run without a record. --watch waits for the record. */
async function preparedOnly(
  shell: Shell,
  holdfast: Holdfast,
  typed: string,
  watch: boolean,
): Promise<StartingProcess | undefined> {
  for (;;) {
    const [first] = await findStarting(holdfast, typed);
    if (first === undefined || (first.run !== null && (await holdfast.store.getRun(first.run)) !== undefined))
      return undefined;
    if (!watch) return first;
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

const POLL_MS = 200;

function stopName({ run, work }: StartingProcess): string {
  return run ?? (work.kind === "issue" ? String(work.number) : "");
}

interface Overview extends Pick<RunOverview, "at" | "slots"> {
  readonly starting: readonly StartingProcess[];
  readonly runs: readonly ShownRun[];
}

type ShownRun = RunDetails & { readonly queued: QueueEntry | null };

/** The queue is opened when the first submitted run is shown, and closed at the end. */
async function openQueue(shell: Shell, holdfast: Holdfast) {
  const { settings } = await shell.config();
  const reader = createQueueReader({ store: holdfast.store, settings, env: shell.env });
  return {
    async addTo(runs: readonly RunDetails[]): Promise<readonly ShownRun[]> {
      const entries = await reader.read(runs);
      return runs.map((details) => withEntry(details, entries));
    },
    async add(details: RunDetails): Promise<ShownRun> {
      return withEntry(details, await reader.read([details]));
    },
    [Symbol.asyncDispose]: () => reader.close(),
  };
}

function withEntry(details: RunDetails, entries: ReadonlyMap<string, QueueEntry>): ShownRun {
  return { ...details, queued: entries.get(details.run.id) ?? null };
}

type Queue = Awaited<ReturnType<typeof openQueue>>;

function shownJson({ queued, ...details }: ShownRun) {
  return { ...statusJson(details), queued };
}

async function readOverview(holdfast: Holdfast, queue: Queue): Promise<Overview> {
  // Read first: a process that acquires its lease a moment later is then among the runs.
  const announced = await findStarting(holdfast, undefined);
  const { at, runs, slots } = await holdfast.overview();
  const details: RunDetails[] = [];
  for (const { run } of runs) details.push({ ...(await holdfast.status(run.id)) });
  const known = new Set((await holdfast.listRuns()).map(({ id }) => id));
  const shown = await queue.addTo(details);
  return { at, slots, starting: announced.filter(({ run }) => run === null || !known.has(run)), runs: shown };
}

function overviewJson({ at, starting, runs, slots }: Overview) {
  return { at, runs: [...starting.map(startingJson), ...runs.map(shownJson)], slots };
}

/** A single unfinished run is shown in full. */
function overviewText({ starting, runs, slots }: Overview, page: Page): string {
  const [only] = runs;
  const shown = only === undefined ? "" : runs.length === 1 ? statusText(only, page) : statusesText(runs, page);
  const limited = slots.used > 0 || runs.some(({ status }) => status.kind === "queued" && status.holder !== null);
  const line = limited && slots.limit !== null ? `${slots.used} of ${slots.limit} slots used.\n` : "";
  return starting.map((one) => startingText(one, page)).join("") + shown + line;
}

async function emptyOverview(shell: Shell): Promise<Overview> {
  const { max } = (await shell.config()).settings.work.loops;
  return { at: new Date().toISOString(), runs: [], starting: [], slots: { limit: max, used: 0 } };
}

async function readOnce(shell: Shell, holdfast: Holdfast): Promise<Overview> {
  await using queue = await openQueue(shell, holdfast);
  return await readOverview(holdfast, queue);
}

/** Without a store there are no runs; this is not a failure. */
async function showAll(shell: Shell, holdfast: Holdfast | undefined): Promise<Exit> {
  const overview = holdfast === undefined ? await emptyOverview(shell) : await readOnce(shell, holdfast);
  const { starting, runs } = overview;
  shell.print({ json: () => overviewJson(overview), text: (page) => overviewText(overview, page) });
  const [only, other] = runs;
  if (only !== undefined && other === undefined) shell.notify(nextText(only, shell.talk));
  else if (only !== undefined) shell.notify(nextLines(runs, shell.talk));
  else if (only === undefined && starting.length > 0) {
    for (const one of starting) shell.notify(`Stop it: ${shell.talk.program} stop ${stopName(one)}`);
  } else if (only === undefined) {
    const ended = (await holdfast?.listRuns())?.length ?? 0;
    const { program } = shell.talk;
    const done = `No unfinished runs; ${countText(ended, "run")} ended: ${program} list`;
    shell.notify(ended === 0 ? noRuns(program) : done);
  }
  return "done";
}

/** The first command for each of several runs. */
function nextLines(runs: readonly RunDetails[], page: Page): string {
  return [...new Set(runs.flatMap((one) => nextText(one, page).split("\n")[0] || []))].join("\n");
}

/** Until Ctrl+C. */
async function watchAll(shell: Shell, holdfast: Holdfast): Promise<Exit> {
  const live = canRedraw(shell)
    ? createLiveRegion({ write: (text) => void shell.write(text), columns: shell.columns, page: shell.page })
    : null;
  await using queue = await openQueue(shell, holdfast);
  let before = "";
  try {
    for (;;) {
      const overview = await readOverview(holdfast, queue);
      const page = { ...shell.page, now: Date.now(), width: shell.columns() - (live === null ? 0 : 1) };
      const json = { kind: "status", ...overviewJson(overview) };
      const content = withoutTimes(json);
      if (live !== null) live.draw(overviewText(overview, page).trimEnd().split("\n"));
      else if (content !== before)
        if (!shell.write(shell.json ? `${JSON.stringify(json)}\n` : overviewText(overview, page))) return "done";
      before = content;
      await sleep(WATCH_MS, undefined, { signal: shell.signal });
    }
  } finally {
    live?.close();
  }
}

const WATCH_MS = 500;

/** A change of times alone is not a change. */
function withoutTimes(document: object): string {
  return JSON.stringify(document, (key, value) => (TIMES.has(key) ? undefined : value));
}

const TIMES: ReadonlySet<string> = new Set([
  "at",
  "heartbeatAt",
  "elapsed",
  "criticalPath",
  "critical",
  "milliseconds",
]);

/** Watches until the run has ended. It polls the lease too, because a silent journal may belong to a process that died. */
async function watchStatus(shell: Shell, holdfast: Holdfast, run: string): Promise<Exit> {
  const show = shell.json ? jsonLines(shell) : canRedraw(shell) ? region(shell) : plainLines(shell);
  const wake = new Wake();
  const watching = follow({ holdfast, run, shell, wake });
  await using queue = await openQueue(shell, holdfast);
  try {
    for (;;) {
      const status = await queue.add(await holdfast.status(run));
      if (!show.status(status)) return "done";
      if (isEnded(status.status)) return "done";
      await wake.next(LOOK_MS, shell.signal);
      shell.signal.throwIfAborted();
    }
  } finally {
    show.close();
    await watching.stop();
  }
}

interface Shower {
  /** false: the reader has closed the stream. */
  status(status: ShownRun): boolean;
  close(): void;
}

function jsonLines(shell: Shell): Shower {
  let before = "";
  return {
    status(status) {
      const document = { kind: "status", run: shownJson(status) };
      const content = withoutTimes(document);
      if (content === before) return true;
      before = content;
      return shell.write(`${JSON.stringify(document)}\n`);
    },
    close() {},
  };
}

function plainLines(shell: Shell): Shower {
  let before = "";
  return {
    status(status) {
      const place = status.stage === null ? "" : `  ${status.stage} #${status.iteration}`;
      const counted = status.graph === null ? "" : `  ${countsText(status.graph.counts)}`;
      const line = `${escapeText(`${status.run.id}  ${statusWord(status.status)}${place}${counted}  ${status.last?.text ?? ""}`)}\n`;
      if (line === before) return true;
      before = line;
      return shell.write(line);
    },
    close() {},
  };
}

function region(shell: Shell): Shower {
  const live = createLiveRegion({ write: (text) => void shell.write(text), columns: shell.columns, page: shell.page });
  let shown: ShownRun | undefined;
  const pageNow = () => ({ ...shell.page, now: Date.now(), width: shell.columns() - 1 });
  return {
    status(status) {
      shown = status;
      live.draw(
        compactStatusText(status, pageNow())
          .trimEnd()
          .split("\n")
          .map((line) => (shell.page.color ? line : truncate(line, shell.columns() - 1))),
      );
      return true;
    },
    /** Leaves the last status on the screen, now in full. */
    close() {
      live.close();
      if (shown !== undefined) shell.write(statusText(shown, pageNow()));
    },
  };
}

/** Sleeps until the timeout or until something was written, whichever is first. */
class Wake {
  #called = false;
  #waiting: (() => void) | undefined;

  call(): void {
    this.#called = true;
    this.#waiting?.();
  }

  async next(milliseconds: number, signal: AbortSignal): Promise<void> {
    if (!this.#called && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          signal.removeEventListener("abort", end);
          resolve();
        };
        const timer = setTimeout(end, milliseconds);
        signal.addEventListener("abort", end);
        this.#waiting = end;
      });
    }
    this.#waiting = undefined;
    this.#called = false;
  }
}

function follow(params: {
  readonly holdfast: Holdfast;
  readonly run: string;
  readonly shell: Shell;
  readonly wake: Wake;
}): { stop(): Promise<void> } {
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, params.shell.signal]);
  const reading = (async () => {
    for await (const _entry of params.holdfast.store.watch({ run: params.run, signal })) params.wake.call();
  })().catch(() => undefined);
  return {
    async stop() {
      controller.abort();
      await reading;
    },
  };
}

const LOOK_MS = 1000;
