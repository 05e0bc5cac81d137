/** Executes a run in the foreground with a live view, or in a detached process, and prints its outcome. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import type { Lease } from "@holdfast/core/lease";
import type { ProgressEvent, RunOutcome } from "@holdfast/core/progress";
import type { RunSummary, Work } from "@holdfast/core/run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { statusWord } from "@holdfast/core/status";
import { HoldfastError } from "@holdfast/platform/error";
import { summarizeLoop } from "@holdfast/workflows/ralph/loop-summary";
import type { Holdfast } from "../holdfast.ts";
import type { LayoutMirror } from "@holdfast/workflows/plugin";
import type { RunDetails } from "../run-status.ts";
import type { RunReport } from "../start-run.ts";
import { readSubmission, withdrawSubmission } from "../worker/fleet-runs.ts";
import { EXPECTED_ENTRIES_VARIABLE, SUBMITTED_VARIABLE, stoppedKey, terminatedKey } from "../worker/plan-work.ts";
import { pageLink, runPath } from "../ui/ui-state.ts";
import type { Shell } from "./command.ts";
import { EXITS, type Exit } from "./exit.ts";
import { isTerminated } from "./interrupts.ts";
import { canRedraw, createReporter, followGraph } from "./live-view.ts";
import { type Page, type Style, paint } from "./output/page.ts";
import { spentText } from "./output/quantities.ts";
import { answerCommands, raiseBudgetFlags, restartCommands } from "./output/status-text.ts";
import { escapeText, escapeWords, momentText, wrapProse } from "./output/text.ts";
import { statusJson } from "./run-json.ts";

/** Shows a run while it executes, and then its outcome. */
export async function executeRun(
  shell: Shell,
  holdfast: Holdfast,
  work: (listen: (event: ProgressEvent) => void) => Promise<RunReport>,
  flags = NO_FLAGS,
): Promise<Exit> {
  const reporter = createReporter(shell);
  const mirror = await createRunMirror(shell, holdfast);
  const live = canRedraw(shell) && !shell.json && !shell.quiet;
  const graph = live ? followGraph(holdfast, reporter) : undefined;
  let executed: string | undefined;
  const onAbort = (): void => void recordStop(shell, holdfast, executed).catch(() => undefined);
  shell.signal.addEventListener("abort", onAbort, { once: true });
  const listen = (event: ProgressEvent): void => {
    executed = event.run;
    reporter.show(event);
    graph?.show(event);
    if (event.kind === "checkpoint") mirror.follow(event.run);
    // The cost is in the checkpoints. The live view may be slightly late.
    if (event.kind === "checkpoint" && live)
      void holdfast.store
        .latest(event.run)
        .then((latest) => {
          if (latest === undefined) return;
          reporter.spent(latest.planes.position.budget.spent);
          reporter.loop(summarizeLoop(latest.planes));
        })
        .catch(() => undefined);
  };
  let report: RunReport;
  try {
    report = await work(listen);
  } catch (error) {
    throw await namingHolder(holdfast, error);
  } finally {
    shell.signal.removeEventListener("abort", onAbort);
    await graph?.close();
    await mirror.close();
    reporter.close();
  }
  const { run, outcome, earlier } = report;
  const status = await holdfast.status(run);
  // Without this mark, after a kill or on a full disk, the run is paused and the worker does not continue it.
  if (outcome.kind === "interrupted" && isTerminated(shell.signal) && !(await isCancelled(shell, holdfast, run)))
    await holdfast.store.setMeta(terminatedKey(run), String(status.run.entries)).catch(() => undefined);
  const link = pageLink(shell.env, holdfast.store.location, runPath(run));
  const document = {
    kind: "result",
    run: statusJson(status),
    result: outcome,
    earlier: earlier === true,
    ...link.json,
  };
  if (!shell.json) shell.write(outcomeText(outcome, status, shell.page, flags));
  if (shell.json || shell.env[RESULT_VARIABLE] === run) shell.write(`${JSON.stringify(document)}\n`);
  shell.notify(link.text);
  return exitOfOutcome(outcome);
}

/** Whether the run was taken out of the queue while a worker of the queue executed it. */
async function isCancelled({ env }: Shell, { store }: Holdfast, run: string): Promise<boolean> {
  return env[SUBMITTED_VARIABLE] === "yes" && (await readSubmission(store, run)) === null;
}

/** Records that the user stops the process, before it winds down: a second Ctrl+C would make the run look crashed. */
async function recordStop(shell: Shell, holdfast: Holdfast, run: string | undefined): Promise<void> {
  if (run === undefined || isTerminated(shell.signal)) return;
  const holder = await (await holdfast.run(run)).holder();
  if (holder !== undefined) await holdfast.store.setMeta(stoppedKey(run), String(holder.lease.epoch));
  // Otherwise another worker would continue it at once. `holdfast submit RUN` gives it back.
  if (await withdrawSubmission(holdfast.store, run))
    shell.notify(`${run} leaves the queue. Back into it: ${shell.talk.program} submit ${run}`);
}

/** Another process acquired the lease first: adds the holder and what the user can do. */
async function namingHolder(holdfast: Holdfast, error: unknown): Promise<unknown> {
  const run = error instanceof HoldfastError && error.code === "LEASE_HELD" ? error.data["run"] : undefined;
  if (typeof run !== "string") return error;
  const holder = await (await holdfast.run(run)).holder();
  return holder?.alive === "alive" ? runHeldError(run, holder.lease) : error;
}

/** Flags to repeat with `resume RUN`, each with a leading blank. */
export interface ResumeFlags {
  /** Flags for every resume, which the run itself does not store. */
  readonly always: string;
  /** Flags for a resume before the run was adopted. */
  readonly untouched: string;
}

const NO_FLAGS: ResumeFlags = { always: "", untouched: "" };

/** The outcome of a session, its cost, and the command to run next. */
export function outcomeText(outcome: RunOutcome, status: RunDetails, page: Page, flags = NO_FLAGS): string {
  const spent = status.budget === null ? null : spentText(status.budget.spent, status.budget.limit);
  const lines = [
    ...headLines(outcome, status, page),
    ...(spent === null || outcome.kind === "ask" ? [] : [`Spent: ${spent}`]),
    ...status.denied.flatMap((text) => headedLines("yellow", "Denied", `${text}. --yolo allows it.`, page)),
    ...nextLines(outcome, status, page, flags),
  ];
  return `${lines.join("\n")}\n`;
}

/** A run that waits for the user needs an answer; any other wait ends without one. */
function exitOfOutcome(outcome: RunOutcome): Exit {
  switch (outcome.kind) {
    case "done":
      return "done";
    case "failed":
    case "aborted":
      return "failed";
    case "waiting":
      return outcome.for === "you" ? "needs_you" : "waiting";
    case "paused":
      return "waiting";
    case "interrupted":
      return "interrupted";
    case "ask":
      return "needs_you";
  }
}

const WAITING: Readonly<Record<Extract<RunOutcome, { kind: "waiting" }>["for"], string>> = {
  you: "Waiting for you",
  quota: "Waiting for quota",
  provider: "Waiting for the provider",
  forge: "Waiting for the forge",
  budget: "Waiting for a higher budget",
  ci: "Waiting for CI",
  disk: "Waiting for disk space",
  session: "Session time limit reached",
};

function headLines(outcome: RunOutcome, status: RunDetails, page: Page): readonly string[] {
  const { id } = status.run;
  switch (outcome.kind) {
    case "done":
      return headedLines("green", "Done", `${id}: ${outcome.reason}`, page);
    case "failed":
      if (isAtLimit(status)) return headedLines("yellow", "Failed: limit reached", `${id}: ${outcome.reason}`, page);
      return headedLines("red", "Failed", `${id}: ${outcome.reason}`, page);
    case "aborted":
      return headedLines("red", "Aborted", `${id}: ${outcome.reason}`, page);
    case "paused":
      return headedLines("yellow", "Paused", `${id}: ${sentence(outcome.reason)}`, page);
    case "waiting": {
      const until = outcome.until === null ? "" : ` Until ${momentText(outcome.until, page)}.`;
      return headedLines("yellow", WAITING[outcome.for], `${id}: ${sentence(outcome.reason)}${until}`, page);
    }
    case "interrupted":
      return headedLines(
        "yellow",
        "Interrupted",
        `${id}: the work was stopped and everything is saved${at(status)}.`,
        page,
      );
    case "ask":
      return headedLines("yellow", "Needs a decision", `${id}: nothing was changed.`, page);
  }
}

function nextLines(outcome: RunOutcome, status: RunDetails, page: Page, flags: ResumeFlags): readonly string[] {
  const { id } = status.run;
  const { program } = page;
  switch (outcome.kind) {
    case "done":
      // The run stopped at its target phase.
      if (status.stage === "stopped" && status.pullRequest === null)
        return [[`Continue with: ${program} resume ${id}`, "--target PHASE"].join(" ")];
      return status.restart === null
        ? takeLines(status)
        : [
            `Restored to @${status.restored} since. Continue from there: ${program} resume ${id}@${status.restart} --force`,
          ];
    case "failed":
    case "aborted":
      if (status.raise !== null)
        return [`Allow more: ${program} resume ${id} --${status.raise} N${flags.always}`, ...takeLines(status)];
      return [
        ...restartCommands(id, { kind: outcome.kind, program, restart: status.restart, flags: flags.always }),
        ...takeLines(status),
      ];
    case "waiting": {
      if (outcome.for === "budget")
        return [`Raise the limit: ${program} resume ${id}${flags.always} ${raiseBudgetFlags(status.budget)}`];
      const { status: now } = status;
      return now.kind === "waiting" && now.question !== null
        ? [answerCommands(`${program} approve ${id}`, now.question.options)]
        : [`Continue with: ${program} resume ${id}${flags.always}`];
    }
    case "paused":
    case "interrupted":
      return [`Continue with: ${program} resume ${id}${flags.always}`];
    case "ask":
      return outcome.findings.length === 0
        ? []
        : [
            `Continue with: ${program} resume ${id}${flags.untouched}${kinds(outcome)
              .map((kind) => ` --accept ${kind}`)
              .filter((flag) => !`${flags.untouched} `.includes(`${flag} `))
              .join("")}`,
          ];
  }
}

function isAtLimit({ status }: RunDetails): boolean {
  return status.kind === "failed" && status.limit;
}

/** A loop without a pull request leaves its work on a branch of this repository. */
function takeLines({ loop, branch, pullRequest }: RunDetails): readonly string[] {
  const worked = loop !== null && loop.totals.iterations > 0;
  return worked && branch !== null && pullRequest === null ? [`Take its commits: git merge ${branch}`] : [];
}

function kinds(outcome: Extract<RunOutcome, { readonly kind: "ask" }>): readonly string[] {
  return [...new Set(outcome.findings.map(({ kind }) => kind))];
}

function at(status: RunDetails): string {
  return status.run.latest === null ? "" : ` as ${status.run.id}@${status.run.latest.sequence}`;
}

/** Words and commands are never broken, however narrow the page: users copy them. */
function headedLines(style: Style, head: string, text: string, page: Page): readonly string[] {
  const wrapped = wrapProse(
    `${head} ${escapeWords(text)}`,
    { ...page, terminal: true },
    Math.min(page.width, READABLE) - 2,
  );
  const [first = "", ...rest] = wrapped.split("\n");
  const painted = first.startsWith(head) ? paint(page, style, head) + first.slice(head.length) : first;
  return [painted, ...rest.map((line) => `  ${line}`)];
}

const READABLE = 100;

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Prevents a silent fresh start and a second run next to an unfinished one. */
export function runUnfinishedError({ run, status }: RunWithStatus): HoldfastError {
  const why = status.kind === "waiting" ? `, ${status.reason}` : "";
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `This work already has a run: ${run.id} (${statusWord(status)}${why})`,
    hint: `Continue it: \`holdfast resume ${run.id}\`. Show its status: \`holdfast status ${run.id}\`.`,
    retry: "ask",
    data: { run: run.id },
  });
}

export function runHeldError(run: string, lease: Lease): HoldfastError {
  const { owner } = lease;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is running in ${owner.label} (pid ${owner.pid} on ${owner.host}) since ${lease.takenAt}`,
    hint: `Watch it: \`holdfast status ${run} --watch\`. Stop it: \`holdfast stop ${run}\`.`,
    retry: "later",
    data: { run, owner, since: lease.takenAt },
  });
}

/** The worker continues a run only as it saw it: in the meantime the user may have paused, answered or resumed it. */
export async function refuseChanged({ env }: Shell, holdfast: Holdfast, run: string): Promise<void> {
  const expected = env[EXPECTED_ENTRIES_VARIABLE];
  if (expected === undefined || expected === String((await (await holdfast.run(run)).summary()).entries)) return;
  throw new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} has changed since the worker looked at it`,
    hint: `Show its status: \`holdfast status ${run}\`.`,
    retry: "later",
    data: { run },
  });
}

/** A crunch run stopped at its target, and the user asked for a new one with another target. */
export function otherTargetError(
  run: RunSummary,
  params: { readonly issue: number | null; readonly request: string | null },
): HoldfastError {
  const { issue, request } = params;
  const what = issue === null ? "This task" : `Issue ${issue}`;
  return new HoldfastError({
    code: "NEEDS_DECISION",
    message: `${what} has a run that stopped at another target: ${run.id} is done${request === null ? "" : `, and its pull request is ${request}`}`,
    hint: `Continue it: \`holdfast resume ${run.id} --target ready-to-merge\`. For a new run, add --again.`,
    retry: "ask",
    data: { run: run.id, request },
  });
}

interface RunMirror {
  /** Mirrors a new checkpoint soon, and never twice at the same time. */
  follow(run: string): void;
  /** Waits until every checkpoint is mirrored. */
  close(): Promise<void>;
}

/**
 * The mirror that `mirror:` in the config configures. It serves another tool: its failure is reported, and the run
 * continues.
 */
async function createRunMirror(shell: Shell, holdfast: Holdfast): Promise<RunMirror> {
  const { format, directory } = (await shell.config()).settings.work.mirror;
  if (format === null) return { follow: () => undefined, close: async () => undefined };
  let mirror: Promise<LayoutMirror> | undefined;
  let work: Promise<void> = Promise.resolve();
  let waiting = false;
  let warned = false;
  const catchUp = async (run: string): Promise<void> => {
    waiting = false;
    try {
      mirror ??= holdfast.formats.mirror({ run, to: format, ...(directory === null ? {} : { directory }) });
      await (await mirror).catchUp();
    } catch (error) {
      mirror = undefined;
      const why = escapeText(error instanceof Error ? error.message : String(error));
      if (!warned) shell.notify(`${paint(shell.talk, "yellow", "warning:")} The ${format} mirror is behind: ${why}`);
      warned = true;
    }
  };
  return {
    follow(run) {
      if (waiting) return;
      waiting = true;
      work = work.then(() => catchUp(run));
    },
    close: () => work,
  };
}

/** Passes a random run id to the background process, so that both processes use the same one. */
export const RUN_ID_VARIABLE = "HOLDFAST_RUN_ID";

/** The run whose background process adds its result as a JSON line: the command that started it printed JSON and may have to repeat it. */
const RESULT_VARIABLE = "HOLDFAST_RESULT_OF";

/**
 * Starts the same command without --detach in its own session, so that closing a terminal does not end it. Its output
 * goes to a file next to the agents' logs. It is text with --json too, because users read it. Returns when the process
 * holds the run. A process that exits before is reported with its output.
 */
export async function executeDetached(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly workflow: string; readonly work: Work },
): Promise<Exit> {
  const { run } = params;
  const log = holdfast.logs.openConsole(run);
  const result = shell.json ? { [RESULT_VARIABLE]: run } : {};
  const child = start(log.fd, { ...shell.env, ...result, [RUN_ID_VARIABLE]: run });
  closeSync(log.fd);
  // Announces the child until it can do so itself.
  using _starting = child.pid === undefined ? null : holdfast.work.announce({ ...params, pid: child.pid });
  const ended = endOf(child);
  const begun = await waitUntilHeld(shell, holdfast, { run, pid: child.pid ?? 0, ended });
  if (begun === null) {
    const status = await ended;
    const state = (await holdfast.store.getRun(run))?.state.kind;
    const waits = state === "waiting" || state === "paused";
    return reportEnd(shell, { status, log: log.path, waits });
  }
  child.unref();
  const { program } = shell.talk;
  const link = pageLink(shell.env, holdfast.store.location, runPath(run));
  shell.print({
    json: () => ({ kind: "detached", run, pid: child.pid, log: log.path, queued: begun === "waiting", ...link.json }),
    text: () =>
      begun === "waiting"
        ? `Queued in the background: ${run} (pid ${child.pid})\n`
        : `Running in the background: ${run} (pid ${child.pid})\n`,
  });
  shell.notify(`Show its status: ${program} status ${run}`);
  shell.notify(`Show its output: ${program} output ${run} --follow`);
  shell.notify(`Stop it:         ${program} stop ${run} --after-step`);
  shell.notify(link.text);
  return "done";
}

function start(fd: number, env: NodeJS.ProcessEnv): ChildProcess {
  const [entry = "", ...words] = process.argv.slice(1);
  const border = [...words, "--"].indexOf("--");
  const args = words.filter((word, at) => at >= border || (word !== "--detach" && word !== "--json"));
  return spawn(process.execPath, [...process.execArgv, entry, ...args], {
    env,
    detached: true,
    stdio: ["ignore", fd, fd],
  });
}

function endOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once("error", () => resolve(EXITS.failed.status));
    child.once("exit", (status) => resolve(status ?? EXITS.failed.status));
  });
}

/** null: the process ended before it held the run. */
async function waitUntilHeld(
  shell: Shell,
  { store }: Holdfast,
  params: { readonly run: string; readonly pid: number; readonly ended: Promise<number> },
): Promise<"working" | "waiting" | null> {
  const over = params.ended.then(() => "over" as const);
  for (;;) {
    const lease = (await store.listLeases()).find(({ run }) => run === params.run);
    if (lease?.owner.pid === params.pid) {
      if (lease.slot === "waiting") return "waiting";
      // The first checkpoint exists once the process has found everything it needs to begin.
      if ((await store.getRun(params.run))?.latest !== null) return "working";
    }
    const next = await Promise.race([over, sleep(LOOK_MS, "later" as const, { signal: shell.signal })]);
    if (next === "over") return null;
  }
}

const LOOK_MS = 50;

/** The process may have finished the run already; otherwise its output explains the failure. */
function reportEnd(
  shell: Shell,
  params: { readonly status: number; readonly log: string; readonly waits: boolean },
): Exit {
  // With FORCE_COLOR the log has colours, which lack this process's style mark.
  const said = stripVTControlCharacters(readFileSync(params.log, "utf8"));
  const exit = EXIT_KINDS.find((kind) => EXITS[kind].status === params.status) ?? "failed";
  if (exit === "done" || exit === "waiting" || (exit === "needs_you" && params.waits)) {
    shell.write(shell.json ? resultLines(said) : said);
    return exit;
  }
  shell.notify(said);
  throw new HoldfastError({
    code: CODE_OF[exit] ?? "IO_FAILED",
    message: `The background process exited with status ${params.status} before the run started`,
    hint: `Its output is above and in ${params.log}.`,
    data: { status: params.status, log: params.log, said },
  });
}

/** Of the text that a background process printed, the JSON lines of its result. */
function resultLines(said: string): string {
  return said.replaceAll(/^(?!\{"kind":"result").*\n?/gm, "");
}

// The keys of a constant record are exactly those of its type.
const EXIT_KINDS = Object.keys(EXITS) as readonly Exit[];
const CODE_OF: Partial<Readonly<Record<Exit, HoldfastError["code"]>>> = {
  usage: "USAGE",
  nothing: "NOTHING_TO_RESUME",
  needs_you: "NEEDS_DECISION",
  held: "LOOP_LIMIT",
  corrupt: "STORE_CORRUPT",
};
