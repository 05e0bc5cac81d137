/** The `resume` command: checks what changed, then continues a run that was stopped, waits or was killed. */
import { isEnded } from "@holdfast/core/run";
import { setTimeout as sleep } from "node:timers/promises";
import { AGENT_LIST } from "@holdfast/core/agent";
import { FINDING_KINDS } from "@holdfast/core/findings";
import { priorityText } from "@holdfast/core/lease";
import type { Budget } from "@holdfast/core/position";
import { type Answers, type Judgement, type ResumePlan, parseAnswers } from "@holdfast/core/resume-plan";
import type { RollbackChoice } from "@holdfast/core/rollback";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { SlotOptions } from "../../plan-start.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { type ResumeFlags, executeDetached, executeRun, runHeldError } from "../execute-run.ts";
import type { Exit } from "../exit.ts";
import { unlessAborted } from "../interrupts.ts";
import { findRun } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { escapeText, escapeWords, momentText, truncate, wrap } from "../output/text.ts";
import { parseCount, readPlace } from "../parse-arguments.ts";
import { noRollbackError, pickCheckpoint, rollbackText } from "../pick-checkpoint.ts";
import { importedItems, rememberTyped, workflowFile, worktreeItems } from "../run-consent.ts";
import { runJson } from "../run-json.ts";
import { modelOf, readImportedRunOptions, readLimits, readPrompts, readSession } from "../run-options.ts";
import { planUses, usesText } from "../run-plan.ts";

export const spec = {
  name: "resume",
  summary: "go on with a run that was stopped, waits or was killed",
  details: [
    "Looks first at what changed meanwhile: the issue's text, the base, the branch, the pull request, the files. What needs no decision is told and the run goes on; what does is shown, and nothing is done until you accept it (exit status 4).",
    "A run that is done stays done (status 0); to go back to one of its older checkpoints takes --force too, or `holdfast fork RUN@7`, which leaves it as it is. One that ended fatally begins again only from a checkpoint that you choose, with --from and --force.",
    `--agent gives it to another agent, as provider or provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
    "A run that was imported (`holdfast format import`) goes on at the stage its document names. One of impl-json goes on in the impl workflow, with the agent and options of the config, one of crunch-yaml in the crunch workflow; others need a workflow of yours that has the stage.",
    `Kinds of findings: ${FINDING_KINDS.join(", ")}. files_changed=put_back puts the files back to the checkpoint instead of keeping them (what is there is saved first). branch_diverged keeps the run's commits: its next push replaces the accepted ones on the remote, and both are kept under refs/holdfast/. A forge that does not answer for now is waited for (exit status 7) unless forge_unreachable is accepted.`,
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, an issue number, or RUN@7 for --from; default the newest that is not finished",
      required: false,
      completes: "run",
    },
  ],
  consent: "works",
  paths: false,
  flags: {
    accept: { type: "text", value: "KIND", about: "go on in spite of a finding of this kind; may be given again" },
    from: {
      type: "text",
      value: "ADDRESS",
      about:
        "from this checkpoint instead of the newest; `smart` chooses it by reading the failure, `pick` asks; what is there now is saved first",
      completes: "address",
    },
    "past-effects": {
      type: "boolean",
      about: "with --from smart: also behind effects that a run could not find again, which you have seen to",
    },
    force: {
      type: "boolean",
      about: "with --from: also when the run has ended; also when as many loops as may be are at work",
    },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of a workflow of your own, when it has moved",
      completes: "file",
    },
    target: {
      type: "text",
      value: "PHASE",
      about: "of a crunch run: go on to this phase, also when it has stopped before",
    },
    max: {
      type: "text",
      value: "N",
      about: "of a loop (ralph): so many rounds in all, also when it has stopped at its limit",
    },
    agent: {
      type: "text",
      value: "PROVIDER:MODEL",
      about: "another agent than the one it had; an imported run has none yet",
    },
    "max-tokens": { type: "text", value: "N", about: "a new limit for the whole run" },
    "max-cost": { type: "text", value: "USD", about: "a new limit for the whole run" },
    "max-time": { type: "text", value: "TIME", about: "stop, save and wait when this session has taken this long" },
    "max-total-time": { type: "text", value: "TIME", about: "a new limit for the whole run" },
    wait: {
      type: "boolean",
      about: "whenever it waits until a time, or as many loops as may be are at work: wait, and go on then",
    },
    priority: {
      type: "text",
      value: "P",
      about: "of a loop in the queue: low, normal (default), high, or -100 to 100; also of a running or queued loop",
    },
    "max-loops": { type: "text", value: "N", about: "loops at work at once in this repository (4)" },
    detach: { type: "boolean", about: "work in the background, whatever becomes of this terminal" },
    "dry-run": { type: "boolean", about: "only look: print what changed and what would be done" },
  },
  examples: [
    { line: "holdfast resume", about: "the newest run that is not finished" },
    { line: "holdfast resume issue-42 --dry-run", about: "what changed while it slept" },
    {
      line: "holdfast resume issue-42 --accept issue_body_changed",
      about: "the text was edited; work with the new one",
    },
    { line: "holdfast resume issue-42 --max-cost 20", about: "it waits for its budget: give it more" },
    { line: "holdfast resume issue-42 --target docs", about: "a crunch run that stopped at ready goes on to docs" },
    {
      line: "holdfast resume ralph-fix-tests-1a2b3c4d --max 40",
      about: "a loop that stopped at its limit goes on to 40",
    },
    { line: "holdfast resume issue-42 --wait", about: "its agent's limit is used up: go on when it is given anew" },
    { line: "holdfast resume issue-42 --from smart --dry-run", about: "where would it go back to, and why?" },
    {
      line: "holdfast resume issue-42 --from issue-42@7 --force",
      about: "begin again from checkpoint 7 of a run that failed",
    },
  ],
  windsDown: true,
  waitsForSpace: true,
  json: 'One line for each event, then {"kind": "result", "run", "result"} as `run` does; with --dry-run {"run", "plan": {...}, "findings": [...], "notes": [texts], "verdict", "uses": {...} as in the plan of `run` or null}, with --detach {"run", "pid", "log", "queued"}. With --from smart also "rollback" as `restore --smart` has it: in that document, or on a line of its own of kind "rollback".',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const answers = parseAnswers(input.texts("accept").flatMap((text) => text.split(",")));
  const limit = readLimits(input);
  const sessionMs = readSession(input);
  const agent = modelOf("agent", input.text("agent"));
  const max = readMax(input.text("max"));
  const typed = input.operand(0);
  const from = input.text("from");
  const way = from === "smart" || from === "pick" ? from : undefined;
  const address = way === undefined ? (from ?? (typed?.includes("@") === true ? typed : undefined)) : undefined;
  refusePastEffects(input.on("past-effects"), way);
  const place = readPlace(input);
  const holdfast = await shell.open({ create: false, writes: !input.on("dry-run") });
  const chosen = address === undefined ? undefined : await holdfast.resolve(address);
  const id = await runOf(holdfast, typed?.split("@")[0], chosen?.run);
  const backTo = from ?? address;
  if (input.on("force") && backTo === undefined) await refuseForcedEnd(await holdfast.run(id));
  const found =
    way === undefined ? {} : await chooseStart(shell, await holdfast.run(id), way, input.on("past-effects"));
  if (found === null) return "needs_you";
  const target = input.text("target");
  if (target !== undefined && !input.on("dry-run"))
    await holdfast.work.changeLimit({ run: id, limit: "target", value: target });
  if (max !== undefined && !input.on("dry-run")) await holdfast.work.changeLimit({ run: id, limit: "max", value: max });
  const workflow = input.text("workflow");
  return await resumeRun(shell, holdfast, {
    run: id,
    answers,
    limit,
    sessionMs,
    // Without a checkpoint to go back to, --force does not apply to a run that has ended.
    force: input.on("force") && backTo !== undefined,
    ...place,
    detach: input.on("detach"),
    dryRun: input.on("dry-run"),
    wait: input.on("wait"),
    ...(chosen === undefined ? {} : { from: chosen.sequence }),
    ...found,
    ...(workflow === undefined ? {} : { workflow }),
    ...(agent === undefined ? {} : { agent }),
  });
}

/** Without `from` the run continues from its newest state. null: the user cancelled. */
async function chooseStart(
  shell: Shell,
  handle: RunHandle,
  way: "smart" | "pick",
  pastEffects: boolean,
): Promise<{ readonly from?: number; readonly rollback?: RollbackChoice } | null> {
  if (way === "pick") {
    const instead = `holdfast resume ${handle.id} --from ${handle.id}@SEQ`;
    const sequence = await pickCheckpoint(shell, handle, { instead });
    if (sequence !== null) return { from: sequence };
    shell.say("Not resumed; nothing was changed.");
    return null;
  }
  const rollback = await handle.planRollback({ pastEffects });
  if (rollback.kind === "none") {
    shell.say(rollbackText(handle.id, rollback, shell.talk));
    throw noRollbackError(handle.id, rollback);
  }
  return { rollback, ...(rollback.kind === "back" ? { from: rollback.chosen } : {}) };
}

function readMax(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const max = parseCount("max", text);
  if (max > 0) return max;
  throw new HoldfastError({ code: "USAGE", message: "--max 0 would do nothing", hint: "Give a number from 1 on." });
}

/**
 * For an unfinished loop --force exceeds the concurrency limit. For a run that has ended, it needs a checkpoint to go
 * back to.
 */
async function refuseForcedEnd(handle: RunHandle): Promise<void> {
  const { state } = await handle.summary();
  if (!isEnded(state)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: "--force needs a checkpoint to begin again from",
    hint: "Choose one of `holdfast list RUN`, then: `holdfast resume RUN@7 --force`.",
  });
}

function refusePastEffects(pastEffects: boolean, way: string | undefined): void {
  if (!pastEffects || way === "smart") return;
  throw new HoldfastError({
    code: "USAGE",
    message: "--past-effects is for --from smart",
    hint: "A checkpoint that you choose yourself is gone back to whatever was done since.",
  });
}

async function runOf(holdfast: Holdfast, typed: string | undefined, chosen: string | undefined): Promise<string> {
  if (typed === undefined || typed === "") return chosen ?? (await newestUnfinished(holdfast));
  const { id } = await findRun(holdfast, typed);
  if (chosen === undefined || chosen === id) return id;
  throw new HoldfastError({
    code: "USAGE",
    message: `The checkpoint is of run ${chosen}, not of ${id}`,
    hint: `Leave ${id} out, or choose a checkpoint of it: \`holdfast list ${id}\`.`,
  });
}

/** Only runs that a workflow has begun: a run that is saved by hand cannot be resumed. */
async function newestUnfinished(holdfast: Holdfast): Promise<string> {
  const open = (await holdfast.listRuns()).filter(
    ({ state, workflow, checkpoints }) => !isEnded(state) && workflow !== "manual" && checkpoints > 0,
  );
  const [newest] = open;
  if (newest !== undefined) return newest.id;
  throw new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: "No run is waiting to go on",
    hint: "Start one with `holdfast run ISSUE`; `holdfast list` shows those that have ended.",
  });
}

interface ResumeOptions {
  readonly run: string;
  readonly answers?: Answers;
  readonly from?: number;
  /** How `from` was chosen, if it was derived from the failure. */
  readonly rollback?: RollbackChoice;
  readonly force?: boolean;
  readonly limit: Partial<Budget["limit"]>;
  /** Limit of this session in milliseconds; null: no limit. */
  readonly sessionMs: number | null;
  readonly dryRun: boolean;
  /** Wait for the time that the run waits until, each time it does. */
  readonly wait?: boolean;
  readonly workflow?: string;
  /** Replaces the run's agent. */
  readonly agent?: string;
  readonly place?: SlotOptions;
  readonly priority?: number;
  /** Let a background process execute the run. */
  readonly detach?: boolean;
}

/**
 * Prints the pre-flight and, unless a finding blocks it, continues the run. With `wait` it resumes again each time the
 * run waits until a time.
 */
export async function resumeRun(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { run, wait = false, dryRun, sessionMs, workflow, place } = params;
  let exit = await takeUpOnce(shell, holdfast, params);
  if (!wait || dryRun) return exit;
  while (exit === "waiting" && (await waitsUntil(holdfast, run)) !== null) {
    const named = { ...(workflow === undefined ? {} : { workflow }), ...(place === undefined ? {} : { place }) };
    const again = { run, limit: {}, sessionMs, dryRun, wait, ...named };
    exit = await takeUpOnce(shell, holdfast, again);
  }
  return exit;
}

async function takeUpOnce(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { run, answers, from, force, limit } = params;
  const holder = await (await holdfast.run(run)).holder();
  if (holder?.alive === "alive") {
    if (params.priority !== undefined && !params.dryRun) {
      await holdfast.work.setPriority(run, params.priority);
      const { priority, ...found } = await holdfast.runWithStatus(run);
      shell.print({
        json: () => ({ kind: "priority", run: runJson(found), priority }),
        text: () => `${run} now has priority ${priorityText(priority)}.\n`,
      });
      return "done";
    }
    const back = !params.dryRun && (await holdfast.work.takeOrderBack(run, "pause"));
    if (!back) throw runHeldError(run, holder.lease);
    shell.print({ json: () => ({ run, takenBack: "pause" }), text: () => `${run} goes on: it had not paused yet.\n` });
    return "done";
  }
  const waits = params.wait === true && !params.dryRun;
  const wakes = waits ? await waitForTime(shell, holdfast, run) : null;
  if (!params.dryRun) await requireImported(shell, holdfast, params);
  const summary = await (await holdfast.run(run)).summary();
  using starting = params.dryRun
    ? null
    : holdfast.work.announce({ run, workflow: summary.workflow, work: summary.work });
  const { workflow } = await workflowFile(shell, holdfast, { run, named: params.workflow });
  const { work } = (await (params.dryRun ? shell.consent.stated() : shell.config())).settings;
  const request = {
    run,
    limit,
    ...(params.sessionMs === null ? {} : { sessionMs: params.sessionMs }),
    signal: shell.signal,
    // An imported run does not store these options; every other run has its own.
    adopt: {
      agent: work.agent,
      options: { ...readImportedRunOptions(params.agent, work), prompts: await readPrompts(work.impl) },
    },
    ...(params.agent === undefined ? {} : { agent: params.agent }),
    ...(workflow === undefined ? {} : { workflow }),
    ...(wakes === null ? {} : { wakes }),
    ...(answers === undefined ? {} : { answers }),
    ...(from === undefined ? {} : { from }),
    ...(force === undefined ? {} : { force }),
    ...(params.place === undefined ? {} : { place: params.place }),
    ...(params.priority === undefined ? {} : { priority: params.priority }),
  };
  const planned = await unlessAborted(shell.signal, holdfast.work.preflight(request));
  if (!params.dryRun) await requireWorktree(shell, holdfast, params, planned);
  const flags = await flagsOf(holdfast, params);
  const { plan, findings, notes } = planned;
  const { rollback } = params;
  const told = (page: Page): string => (rollback === undefined ? "" : rollbackText(run, rollback, page));
  if (params.dryRun) {
    const { forge } = await holdfast.work.parts();
    const resumed = { config: planned.current.config, shape: { name: planned.run.workflow }, forge };
    // A run that has ended executes nothing.
    const uses = planned.checkpoint === null ? null : await planUses(shell, await shell.consent.stated(), resumed);
    const more = rollback === undefined ? {} : { rollback };
    shell.print({
      json: () => ({ run, plan, findings, notes, verdict: plan.kind, uses, ...more }),
      text: (page) =>
        told(page) +
        preflightText(planned, page) +
        verdictText(`${run}${backTo(params)}${flags.untouched}`, plan, page) +
        (uses === null ? "" : usesText(uses, page)),
    });
    return "done";
  }
  if (params.detach === true) {
    starting?.remove();
    return await executeDetached(shell, holdfast, { run, workflow: summary.workflow, work: summary.work });
  }
  if (shell.json && rollback !== undefined)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "rollback", rollback })}\n`);
  if (shell.json && findings.length > 0)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "findings", findings })}\n`);
  for (const text of shell.json ? notes : [])
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "note", text })}\n`);
  if (!shell.json && !shell.quiet) shell.write(told(shell.page) + preflightText(planned, shell.page));
  return await executeRun(
    shell,
    holdfast,
    (listen) => holdfast.work.resume({ ...request, listen, starting }, planned),
    flags,
  );
}

/** Names the checkpoint that was chosen now, so that a repeated command does the same even if the run has changed. */
function backTo({ run, from, force }: ResumeOptions): string {
  return from === undefined ? "" : ` --from ${run}@${from}${force === true ? " --force" : ""}`;
}

/**
 * An imported run uses the commands, agents and prompts of its document, and before its first resume also those of the
 * config. The user typed neither, so both need consent. Every other run keeps the settings that it began with.
 */
async function requireImported(shell: Shell, holdfast: Holdfast, { run, agent }: ResumeOptions): Promise<void> {
  const { labels, workflow } = await (await holdfast.run(run)).summary();
  const [last] = labels["import"] === undefined ? [] : await holdfast.store.listCheckpoints({ run, limit: 1 });
  if (last === undefined) return;
  const replaced = new Set(agent === undefined ? [] : ["agent", "models.impl", "models.review"]);
  const begins =
    last.trigger !== "import" ? [] : workflow === "impl" ? (["start", "impl"] as const) : (["start"] as const);
  await shell.consent.require({ uses: begins, replaced, more: await importedItems(holdfast, run), run });
}

/** The worktree may hold other files than the checkout: those of the base branch, of a rebase, or of the agent. */
async function requireWorktree(
  shell: Shell,
  holdfast: Holdfast,
  { run, agent }: ResumeOptions,
  planned: Awaited<ReturnType<Holdfast["work"]["preflight"]>>,
): Promise<void> {
  // A run that has ended executes nothing.
  if (planned.checkpoint === null) return;
  const { config } = planned.current;
  if (agent !== undefined) await rememberTyped(shell, [agent]);
  const found = await worktreeItems(shell, holdfast, { run, workflow: planned.run.workflow, config });
  await shell.consent.require({ uses: [], run, ...found });
}

/** An imported run does not store a workflow file, so the user must repeat it. It stores the agent once it has begun. */
async function flagsOf(holdfast: Holdfast, { run, workflow, agent }: ResumeOptions): Promise<ResumeFlags> {
  const { labels } = await (await holdfast.run(run)).summary();
  const always = workflow === undefined || labels["workflow-file"] === workflow ? "" : ` --workflow ${workflow}`;
  return { always, untouched: `${always}${agent === undefined ? "" : ` --agent ${agent}`}` };
}

/**
 * Waits until the time that the run waits for, and returns it. The resume passes this time on, so that it continues the
 * run only if that is still what it waits for. Returns null at once if there is no such time. Polls the clock, because
 * it may be set and the machine may sleep. Nothing is held or written meanwhile, so a kill loses nothing. Throws
 * LEASE_HELD if another process resumed the run.
 */
async function waitForTime(
  shell: Shell,
  holdfast: Pick<Holdfast, "run" | "hasRoom">,
  run: string,
): Promise<string | null> {
  const until = await waitsUntil(holdfast, run);
  const { state } = await (await holdfast.run(run)).summary();
  if (state.kind === "waiting" && state.for === "disk") return await waitForSpace(shell, holdfast, run);
  if (until === null || Date.parse(until) <= Date.now()) return until;
  shell.say(`Waiting for ${run} until ${momentText(until, shell.talk)} …`);
  for (let left = 1; left > 0; left = Date.parse(until) - Date.now()) {
    await sleep(Math.min(Math.max(left, MIN_MS), TICK_MS), undefined, { signal: shell.signal });
    if ((await waitsUntil(holdfast, run)) !== until) throw takenUp(run);
  }
  return until;
}

/** Waits until there is enough disk space, without a time limit. */
async function waitForSpace(
  shell: Shell,
  holdfast: Pick<Holdfast, "run" | "hasRoom">,
  run: string,
): Promise<string | null> {
  const until = await waitsUntil(holdfast, run);
  if (await holdfast.hasRoom(run)) return until;
  shell.say(`Waiting for ${run} until there is space on the disk …`);
  while (!(await holdfast.hasRoom(run))) {
    await sleep(TICK_MS, undefined, { signal: shell.signal });
    if ((await waitsUntil(holdfast, run)) !== until) throw takenUp(run);
  }
  return until;
}

const TICK_MS = 1000;
const MIN_MS = 10;

/** null: the run does not wait, or it waits for something without a known time. */
export async function waitsUntil(holdfast: Pick<Holdfast, "run">, run: string): Promise<string | null> {
  const { state } = await (await holdfast.run(run)).summary();
  return state.kind === "waiting" ? state.until : null;
}

function takenUp(run: string): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} was taken up by somebody else while this command waited`,
    hint: `See where it stands: \`holdfast status ${run}\`.`,
    retry: "later",
    data: { run },
  });
}

/** Shows every finding, the decision about it, and what is done before the run continues. */
function preflightText(
  { plan, notes }: { readonly plan: ResumePlan; readonly notes: readonly string[] },
  page: Page,
): string {
  const judgements = plan.kind === "nothing" ? [] : plan.judgements;
  const actions = plan.kind === "nothing" || plan.kind === "refuse" ? [] : plan.actions;
  const news = judgements.filter(({ decision }) => decision !== "accepted_before");
  const lines = news.flatMap((judgement) => [
    ...judgementLines(judgement, page),
    ...diffLines(judgement.finding.diff, page),
  ]);
  const doings = [...new Set(actions.map(({ why }) => why))].flatMap((why) =>
    marked(paint(page, "cyan", "→"), why, page),
  );
  const told = notes.flatMap((note) => marked(paint(page, "yellow", "!"), note, page));
  return [...lines, ...told, ...doings].map((line) => `${line}\n`).join("");
}

function judgementLines({ finding, verdict, decision }: Judgement, page: Page): readonly string[] {
  const { mark, style } = MARKS[verdict];
  const said = decision === "accepted" ? " (accepted)" : decision === "put_back" ? " (files put back)" : "";
  const kind = verdict === "ask" ? ` [${finding.kind}]` : "";
  return marked(paint(page, style, mark), `${finding.summary}${said}${kind}`, page);
}

const MARKS: Readonly<Record<Judgement["verdict"], { readonly mark: string; readonly style: Style }>> = {
  resume: { mark: "·", style: "dim" },
  warn: { mark: "!", style: "yellow" },
  ask: { mark: "?", style: "yellow" },
  refuse: { mark: "✗", style: "red" },
};

function marked(mark: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(escapeWords(text), Math.min(page.width, 100) - 4);
  return [`${mark} ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** A patch of the issue's text, coloured as patches are. */
function diffLines(diff: string | undefined, page: Page): readonly string[] {
  if (diff === undefined || diff === "") return [];
  return diff
    .trimEnd()
    .split("\n")
    .map((line) => {
      const text = truncate(escapeText(line), page.width - 5);
      const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : undefined;
      return `    ${style === undefined ? text : paint(page, style, text)}`;
    });
}

/** The conclusion of the pre-flight, for --dry-run. */
function verdictText(run: string, plan: ResumePlan, page: Page): string {
  const go = `${page.program} resume ${run}`;
  switch (plan.kind) {
    case "resume":
      return plan.judgements.length === 0
        ? `Nothing has changed meanwhile. Go on with: ${go}\n`
        : `Nothing stands in the way. Go on with: ${go}\n`;
    case "warn":
      return `It can go on as told above: ${go}\n`;
    case "ask":
      return `Needs a decision: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "refuse":
      return `Cannot go on: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "done":
      return `${escapeWords(plan.why)}. There is nothing to do.\n`;
    case "nothing":
      return `${escapeWords(plan.why)}. ${escapeWords(plan.hint)}\n`;
  }
}
