/** The `resume` command: checks what changed, then continues a run that was stopped, waits or was killed. */
import { AGENT_LIST } from "@holdfast/core/agent";
import { FINDING_KINDS } from "@holdfast/core/findings";
import { parseAnswers } from "@holdfast/core/resume-plan";
import type { RollbackChoice } from "@holdfast/core/rollback";
import { isEnded } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { readSlot } from "../parse-arguments.ts";
import { noRollbackError, pickCheckpoint, rollbackText } from "../pick-checkpoint.ts";
import { resumeRun } from "../resume-run.ts";
import { RARE_LIMITS, modelOf, readLimits, readSession, readWorkflowLimits } from "../run-options.ts";

export const spec = {
  name: "resume",
  summary: "continue a run that stopped, waits or crashed",
  details: [
    "First checks what changed in the meantime: issue, base branch, branch, pull request and files. It reports the changes and continues. If a change needs a decision, nothing is done until you accept it (exit status 4).",
    "A run that is done is not continued (exit status 0). To restart a done or failed run from a checkpoint, use --from and --force, or `holdfast fork RUN@7` for a new run.",
    "A new limit, target or check is stored once nothing prevents the resume: a resume that is refused or that asks leaves the run as it was. For a run that is done a changed one is refused (exit status 2), unless --target continues it or --from and --force restart it.",
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
      alsoAddress: true,
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
  json: 'One line for each event, then {"kind": "result", "run", "result"} as `run` does; with --dry-run {"kind": "plan", "run", "plan": {...}, "findings": [...], "notes": [texts], "verdict", "uses": {...} as in the plan of `run`}, with --detach {"kind": "detached", "run": "id", "pid", "log", "queued"}. With --from smart also "rollback" as `restore --smart` has it: in that document, or on a line of its own of kind "rollback".',
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
    hint: "Start one with `holdfast run`; `holdfast list` shows ended runs.",
  });
}
