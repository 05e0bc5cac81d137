/** The `resume` command: checks what changed, then continues a run that was stopped, waits or was killed. */
import { isEnded } from "@holdfast/core/run";
import { setTimeout as sleep } from "node:timers/promises";
import { AGENT_LIST } from "@holdfast/core/agent";
import { FINDING_KINDS } from "@holdfast/core/findings";
import { type JsonObject, isJsonArray } from "@holdfast/core/json";
import { priorityText } from "@holdfast/core/lease";
import { type Judgement, type ResumePlan, parseAnswers } from "@holdfast/core/resume-plan";
import type { RollbackChoice } from "@holdfast/core/rollback";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { isBuiltIn } from "@holdfast/workflows/built-in";
import type { WorkSettings } from "../../config/work-settings.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { ResumeParams } from "../../resume-request.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { type ResumeFlags, executeDetached, executeRun, refuseChanged, runHeldError } from "../execute-run.ts";
import type { Exit } from "../exit.ts";
import { unlessAborted } from "../interrupts.ts";
import { findRun } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { escapeText, escapeWords, momentText, truncate, wrap } from "../output/text.ts";
import { readSlot } from "../parse-arguments.ts";
import { noRollbackError, pickCheckpoint, rollbackText } from "../pick-checkpoint.ts";
import { importedItems, rememberTyped, workflowFile, worktreeItems, howImported } from "../run-consent.ts";
import { runJson } from "../run-json.ts";
import {
  modelOf,
  promptsOf,
  readImportedRunOptions,
  readLimits,
  readSession,
  RARE_LIMITS,
  readWorkflowLimits,
  limitFlags,
} from "../run-options.ts";
import { planUses, usesText } from "../run-plan.ts";
import { quoteWord } from "../shell.ts";

export const spec = {
  name: "resume",
  summary: "continue a run that stopped, waits or crashed",
  details: [
    "First checks what changed in the meantime: issue, base branch, branch, pull request and files. It reports the changes and continues. If a change needs a decision, nothing is done until you accept it (exit status 4).",
    "A run that is done is not continued (exit status 0). To restart a done or failed run from a checkpoint, use --from and --force, or `holdfast fork RUN@7` for a new run.",
    "A new limit, target or check is stored once nothing prevents the resume: a resume that is refused or that asks leaves the run as it was. For a run that is done they are refused (exit status 2), unless --target continues it or --from and --force restart it.",
    `--agent changes the agent, as provider or provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
    "An imported run (`holdfast format import`) continues at the stage that its document names: impl-json with the impl workflow and the agent and options of the config, crunch-yaml with the crunch workflow, loop-json with the ralph workflow. --target, --max, --until and --from apply to the first resume too. A crunch document with `can_resume: false` needs --force (exit status 4). Other formats need your own workflow with that stage.",
    `Kinds of findings: ${FINDING_KINDS.join(", ")}. files_changed=put_back restores the files of the checkpoint instead of keeping the changes (they are saved first). If the run was stopped in the middle of a step, files_changed needs an answer: accepted, the step begins from the files as they are. branch_diverged keeps the run's commits: the next push replaces the accepted ones on the remote, and both stay under refs/holdfast/. If the forge does not respond, the run waits (exit status 7) unless forge_unreachable is accepted.`,
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, an issue number, or RUN@7 for --from; default the newest unfinished run",
      required: false,
      completes: "run",
    },
  ],
  consent: "works",
  flags: {
    accept: { type: "text", value: "KIND", about: "continue despite a finding of this kind; repeatable" },
    from: {
      type: "text",
      value: "ADDRESS",
      about:
        "continue from this checkpoint instead of the newest; `smart` chooses it from the failure, `pick` asks; the current files are saved first",
      completes: "address",
    },
    "past-effects": {
      type: "boolean",
      about: "with --from smart: allow rolling back past irreversible side effects that you have handled",
    },
    force: {
      type: "boolean",
      about:
        "with --from: also if the run has ended; an imported run: also if its document says that it cannot be resumed; also if the loop concurrency limit is reached",
    },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of your own workflow, if it has moved",
      completes: "file",
    },
    target: {
      type: "text",
      value: "PHASE",
      about: "crunch: continue to this phase, also after an earlier target",
    },
    max: {
      type: "text",
      value: "N",
      about: "ralph: iterations in total, also if the run stopped at its limit",
    },
    until: {
      type: "text",
      value: "COMMAND",
      about: "ralph: the check from now on, also of an imported loop that names none; repeatable",
    },
    "max-iterations": { type: "text", value: "N", about: "impl: iterations in total, also if the run stopped there" },
    "max-reviews": { type: "text", value: "N", about: "impl: failed reviews in total" },
    "max-pr-attempts": { type: "text", value: "N", about: "impl: failed pull request attempts in total" },
    "max-rebases": { type: "text", value: "N", about: "impl: rebases in total" },
    "max-parse-failures": { type: "text", value: "N", about: "impl: consecutive iterations that do not parse" },
    "max-review-failures": { type: "text", value: "N", about: "impl: consecutive reviews without a new best score" },
    "max-stuck": { type: "text", value: "N", about: "impl: consecutive iterations without progress" },
    "max-simplifications": { type: "text", value: "N", about: "impl: failed simplifications in total" },
    agent: {
      type: "text",
      value: "PROVIDER:MODEL",
      about: "change the agent; an imported run has none yet",
    },
    "max-tokens": { type: "text", value: "N", about: "a new limit for the whole run" },
    "max-cost": { type: "text", value: "USD", about: "a new limit for the whole run" },
    "max-time": { type: "text", value: "TIME", about: "stop and save when this session has taken this long" },
    "max-total-time": { type: "text", value: "TIME", about: "a new limit for the whole run" },
    wait: {
      type: "boolean",
      about: "wait for a known time (rate limit) or for a free loop slot, then continue",
    },
    priority: {
      type: "text",
      value: "P",
      about: "of a loop in the queue: low, normal (default), high, or -100 to 100; also of a running or queued loop",
    },
    "max-loops": { type: "text", value: "N", about: "loops that run at once in this repository (4)" },
    detach: { type: "boolean", about: "run in the background, also after this terminal is closed" },
    "dry-run": { type: "boolean", about: "show what changed and what would be done, and do nothing" },
  },
  flagGroups: {
    "Where to continue": ["from", "past-effects", "force", "accept", "dry-run"],
    "What to change": ["agent", "workflow", "target", "max", "until"],
    Limits: [
      "max-iterations",
      "max-reviews",
      "max-pr-attempts",
      "max-rebases",
      "max-parse-failures",
      "max-review-failures",
      "max-stuck",
      "max-simplifications",
      "max-tokens",
      "max-cost",
      "max-time",
      "max-total-time",
    ],
    "Waiting and background": ["wait", "priority", "max-loops", "detach"],
  },
  examples: [
    { line: "holdfast resume", about: "continue the newest unfinished run" },
    {
      line: "holdfast resume issue-42 --accept issue_body_changed",
      about: "the issue was edited: work with the new text",
    },
    { line: "holdfast resume issue-42 --from smart --dry-run", about: "show which checkpoint the failure points to" },
  ],
  windsDown: true,
  waitsForSpace: true,
  json: 'One line for each event, then {"kind": "result", "run", "result"} as `run` does; with --dry-run {"kind": "plan", "run", "plan": {...}, "findings": [...], "notes": [texts], "verdict", "uses": {...} as in the plan of `run` or null}, with --detach {"kind": "detached", "run": "id", "pid", "log", "queued"}. With --from smart also "rollback" as `restore --smart` has it: in that document, or on a line of its own of kind "rollback".',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const answers = parseAnswers(input.texts("accept").flatMap((text) => text.split(",")));
  const limit = readLimits(input);
  const agent = modelOf("agent", input.text("agent"));
  const typed = input.operand(0);
  const from = input.text("from");
  const way = from === "smart" || from === "pick" ? from : undefined;
  const address = way === undefined ? (from ?? (typed?.includes("@") === true ? typed : undefined)) : undefined;
  refusePastEffects(input.on("past-effects"), way);
  const loopSlot = readSlot(input);
  const holdfast = await shell.open({ create: false, writes: !input.on("dry-run") });
  const chosen = address === undefined ? undefined : await holdfast.resolve(address);
  const id = await runOf(holdfast, typed?.split("@")[0], chosen?.run);
  const backTo = from ?? address;
  const limits = readWorkflowLimits(input, RARE_LIMITS);
  const pending = await holdfast.work.isPendingImport({ run: id, limits });
  if (input.on("force") && backTo === undefined) await refuseForcedEnd(await holdfast.run(id));
  const found =
    way === undefined ? {} : await chooseStart(shell, await holdfast.run(id), way, input.on("past-effects"));
  if (found === null) return "needs_you";
  const start = chosen === undefined ? {} : { from: chosen.sequence };
  const workflow = input.text("workflow");
  return await resumeRun(shell, holdfast, {
    run: id,
    answers,
    limit,
    ...readSession(input),
    limits,
    // Without a checkpoint to go back to, --force does not apply to a run that has ended.
    force: input.on("force") && (backTo !== undefined || pending),
    ...loopSlot,
    detach: input.on("detach"),
    dryRun: input.on("dry-run"),
    wait: input.on("wait"),
    ...start,
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
    shell.notify("Not resumed; nothing was changed.");
    return null;
  }
  const rollback = await handle.planRollback({ pastEffects });
  if (rollback.kind === "none") {
    shell.notify(rollbackText(handle.id, rollback, shell.talk));
    throw noRollbackError(handle.id, rollback);
  }
  return { rollback, ...(rollback.kind === "back" ? { from: rollback.chosen } : {}) };
}

/**
 * For an unfinished loop --force exceeds the concurrency limit. For a run that has ended, it needs a checkpoint to go
 * back to.
 */
async function refuseForcedEnd(handle: RunHandle): Promise<void> {
  const { state } = await handle.summary();
  if (!isEnded(state)) return;
  throw usageError(
    "--force needs a checkpoint to restart from",
    `Choose one of \`holdfast list ${handle.id}\`, then: \`holdfast resume ${handle.id}@7 --force\`.`,
  );
}

function refusePastEffects(pastEffects: boolean, way: string | undefined): void {
  if (!pastEffects || way === "smart") return;
  throw usageError(
    "--past-effects needs --from smart",
    "A checkpoint that you name is restored whatever side effects came after it.",
  );
}

async function runOf(holdfast: Holdfast, typed: string | undefined, chosen: string | undefined): Promise<string> {
  if (typed === undefined || typed === "") return chosen ?? (await newestUnfinished(holdfast));
  const { id } = await findRun(holdfast, typed);
  if (chosen === undefined || chosen === id) return id;
  throw usageError(
    `The checkpoint is of run ${chosen}, not of ${id}`,
    `Leave ${id} out, or choose one of its checkpoints: \`holdfast list ${id}\`.`,
  );
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
    message: "No run can be continued",
    hint: "Start one with `holdfast run ISSUE`; `holdfast list` shows ended runs.",
  });
}

interface ResumeOptions extends Pick<
  ResumeParams,
  "run" | "answers" | "from" | "force" | "limit" | "limits" | "agent" | "sessionMs" | "loopSlot" | "priority"
> {
  /** How `from` was chosen, if it was derived from the failure. */
  readonly rollback?: RollbackChoice;
  readonly dryRun: boolean;
  /** Wait for the time that the run waits until, each time it does. */
  readonly wait?: boolean;
  /** The file of a custom workflow. */
  readonly workflow?: string;
  /** Let a background process execute the run. */
  readonly detach?: boolean;
}

/**
 * Prints the pre-flight and, unless a finding blocks it, continues the run. With `wait` it resumes again each time the
 * run waits until a time.
 */
export async function resumeRun(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { run, wait = false, dryRun, sessionMs, workflow, loopSlot } = params;
  let exit = await resumeOnce(shell, holdfast, params);
  if (!wait || dryRun) return exit;
  while (exit === "waiting" && (await waitsUntil(holdfast, run)) !== null) {
    exit = await resumeOnce(shell, holdfast, {
      run,
      dryRun,
      wait,
      ...(sessionMs === undefined ? {} : { sessionMs }),
      ...(workflow === undefined ? {} : { workflow }),
      ...(loopSlot === undefined ? {} : { loopSlot }),
    });
  }
  return exit;
}

async function resumeOnce(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<Exit> {
  const { rollback, dryRun, wait = false, workflow: file, detach = false, ...passed } = params;
  const { run } = passed;
  const holder = await (await holdfast.run(run)).holder();
  if (holder?.alive === "alive") {
    if (passed.priority !== undefined && !dryRun) {
      await holdfast.work.setPriority(run, passed.priority);
      const { priority, ...found } = await holdfast.runWithStatus(run);
      shell.print({
        json: () => ({ kind: "priority", run: runJson(found), priority }),
        text: () => `${run} now has priority ${priorityText(priority)}.\n`,
      });
      return "done";
    }
    const back = !dryRun && (await holdfast.work.withdrawSignal(run, "pause"));
    if (!back) throw runHeldError(run, holder.lease);
    const found = await holdfast.runWithStatus(run);
    shell.print({
      json: () => ({ kind: "withdrawn", run: runJson(found), signal: "pause" }),
      text: () => `${run} continues: it had not paused yet.\n`,
    });
    return "done";
  }
  await refuseChanged(shell, holdfast, run);
  const waits = wait && !dryRun;
  const wakes = waits ? await waitForTime(shell, holdfast, run) : null;
  if (!dryRun) await requireImported(shell, holdfast, params);
  const summary = await (await holdfast.run(run)).summary();
  using starting = dryRun ? null : holdfast.work.announce({ run, workflow: summary.workflow, work: summary.work });
  const { workflow } = await workflowFile(shell, holdfast, { run, named: file });
  const { work } = (await (dryRun ? shell.consent.stated() : shell.config())).settings;
  const request = {
    ...passed,
    signal: shell.signal,
    // An imported run does not store these options; every other run has its own.
    adopt: {
      agent: work.agent,
      options: (await holdfast.work.isPendingImport(params))
        ? await importedOptions(shell, summary.workflow, passed.agent, work)
        : {},
    },
    ...(workflow === undefined ? {} : { workflow }),
    ...(wakes === null ? {} : { wakes }),
  };
  const planned = await unlessAborted(shell.signal, holdfast.work.preflight(request, { programs: dryRun }));
  if (!dryRun) await requireWorktree(shell, holdfast, params, planned);
  const flags = await flagsOf(holdfast, params);
  const { plan, findings, notes } = planned;
  const rollbackOf = (page: Page): string => (rollback === undefined ? "" : rollbackText(run, rollback, page));
  if (dryRun) {
    const { forge } = await holdfast.work.adapters();
    const resumed = { config: planned.current.config, shape: { name: planned.run.workflow }, forge };
    // A run that has ended executes nothing.
    const uses =
      planned.checkpoint === null
        ? null
        : await planUses(shell, await shell.consent.stated(), resumed, await importedItems(holdfast, params));
    const more = rollback === undefined ? {} : { rollback };
    const found = await holdfast.runWithStatus(run);
    shell.print({
      json: () => ({ kind: "plan", run: runJson(found), plan, findings, notes, verdict: plan.kind, uses, ...more }),
      text: (page) =>
        rollbackOf(page) +
        preflightText(planned, page) +
        verdictText(`${run}${backTo(params)}${flags.untouched}`, planned, page) +
        (uses === null ? "" : usesText(uses, page, run)),
    });
    return "done";
  }
  if (detach) {
    starting?.remove();
    return await executeDetached(shell, holdfast, { run, workflow: summary.workflow, work: summary.work });
  }
  if (shell.json && rollback !== undefined)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "rollback", rollback })}\n`);
  if (shell.json && findings.length > 0)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "findings", findings })}\n`);
  for (const text of shell.json ? notes : [])
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "note", text })}\n`);
  if (!shell.json && !shell.quiet) shell.write(rollbackOf(shell.page) + preflightText(planned, shell.page));
  await refuseChanged(shell, holdfast, run);
  return await executeRun(
    shell,
    holdfast,
    (listen) => holdfast.work.resume({ ...request, listen, starting }, planned),
    flags,
  );
}

/** The options of the config for the workflow that adopts the run. */
async function importedOptions(
  shell: Shell,
  workflow: string,
  agent: string | undefined,
  settings: WorkSettings,
): Promise<JsonObject> {
  const options = readImportedRunOptions(workflow, agent, settings);
  // A loop uses the options of its document.
  if (!isBuiltIn(workflow) || workflow === "ralph") return options;
  if (workflow === "impl") return { ...options, prompts: await promptsOf(shell.consent, workflow, settings.impl) };
  return {
    ...options,
    prompts: await promptsOf(shell.consent, workflow),
    settings: await shell.consent.crunchSettings(),
  };
}

/** Names the checkpoint that was chosen now, so that a repeated command does the same even if the run has changed. */
function backTo({ run, from, force }: ResumeOptions): string {
  return from === undefined ? "" : ` --from ${run}@${from}${force === true ? " --force" : ""}`;
}

/**
 * An imported run uses the commands, agents and prompts of its document, and before its first resume also those of the
 * config. The user typed neither, so both need consent. Every other run keeps the settings that it began with.
 */
async function requireImported(shell: Shell, holdfast: Holdfast, params: ResumeOptions): Promise<void> {
  const { run, agent, limits = {}, force = false } = params;
  const { workflow, latest, state } = await (await holdfast.run(run)).summary();
  if (latest === null || (await howImported(holdfast, run)) === null) return;
  const pending = await holdfast.work.isPendingImport(params);
  // A run that has ended executes nothing, unless a new limit continues it.
  if (isEnded(state) && !pending && !force && Object.keys(limits).length === 0) return;
  const replaced = new Set([
    ...(agent === undefined ? [] : ["agent", "models.impl", "models.review"]),
    ...(limits["until"] === undefined ? [] : ["ralph.until"]),
  ]);
  const begins = !pending ? [] : (["start", ...(isBuiltIn(workflow) ? [workflow] : [])] as const);
  await shell.consent.require({ uses: begins, replaced, more: await importedItems(holdfast, params), run });
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
async function flagsOf(holdfast: Holdfast, params: ResumeOptions): Promise<ResumeFlags> {
  const { run, workflow, agent, limit = {}, limits = {}, answers = {} } = params;
  const { labels } = await (await holdfast.run(run)).summary();
  const always =
    workflow === undefined || labels["workflow-file"] === workflow ? "" : ` --workflow ${quoteWord(workflow)}`;
  const typed = Object.entries(limits).flatMap(([name, value]) =>
    (isJsonArray(value) ? value : [value]).map(
      (one) => ` --${name} ${typeof one === "string" ? quoteWord(one) : String(one)}`,
    ),
  );
  const accepted = Object.entries(answers).map(
    ([kind, answer]) => ` --accept ${kind}${answer === "accept" ? "" : `=${answer}`}`,
  );
  const named = agent === undefined ? "" : ` --agent ${quoteWord(agent)}`;
  return { always, untouched: [always, named, ...typed, limitFlags(limit), ...accepted].join("") };
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
  shell.notify(`Waiting for ${run} until ${momentText(until, shell.talk)} …`);
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
  shell.notify(`Waiting for ${run} until there is space on the disk …`);
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
    message: `Another process resumed run ${run} while this command waited`,
    hint: `Show its status: \`holdfast status ${run}\`.`,
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
  const changes = judgements.filter(({ decision }) => decision !== "accepted_before");
  const lines = changes.flatMap((judgement) => [
    ...judgementLines(judgement, page),
    ...diffLines(judgement.finding.diff, page),
  ]);
  const doings = [...new Set(actions.map(({ why }) => why))].flatMap((why) =>
    marked(paint(page, "cyan", "→"), why, page),
  );
  const noteLines = notes.flatMap((note) => marked(paint(page, "yellow", "!"), note, page));
  return [...lines, ...noteLines, ...doings].map((line) => `${line}\n`).join("");
}

function judgementLines({ finding, verdict, decision }: Judgement, page: Page): readonly string[] {
  const { mark, style } = MARKS[verdict];
  const answer = decision === "accepted" ? " (accepted)" : decision === "put_back" ? " (files restored)" : "";
  const kind = verdict === "ask" ? ` [${finding.kind}]` : "";
  return marked(paint(page, style, mark), `${finding.summary}${answer}${kind}`, page);
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
function verdictText(
  run: string,
  { plan, notes }: { readonly plan: ResumePlan; readonly notes: readonly string[] },
  page: Page,
): string {
  const go = `${page.program} resume ${run}`;
  switch (plan.kind) {
    case "resume":
      return plan.judgements.length === 0 && notes.length === 0
        ? `Nothing has changed in the meantime. Continue with: ${go}\n`
        : `Nothing needs a decision. Continue with: ${go}\n`;
    case "warn":
      return `It can continue as described above: ${go}\n`;
    case "ask":
      return `Needs a decision: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "refuse":
      return `Cannot continue: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "done":
      return `${escapeWords(plan.why)}. There is nothing to do.\n`;
    case "nothing":
      return `${escapeWords(plan.why)}. ${escapeWords(plan.hint)}\n`;
  }
}
