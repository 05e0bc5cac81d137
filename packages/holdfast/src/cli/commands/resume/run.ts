import type { Holdfast, RollbackChoice, RunHandle } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import { parseAnswers } from "../../../core/resume/resume-answers.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { noRollback } from "../../no-rollback.ts";
import { parseCount } from "../../parse-count.ts";
import { pickCheckpoint } from "../../pick-checkpoint.ts";
import { rollbackText } from "../../rollback-text.ts";
import { readPlace } from "../../read-place.ts";
import { modelOf, readLimits, readSession } from "../run/read-request.ts";
import type { resumeSpec } from "./spec.ts";
import { takeUpRun } from "./take-up-run.ts";

export async function run(shell: Shell, input: Input<(typeof resumeSpec)["flags"]>): Promise<Exit> {
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
  if (found === null) return "decision";
  const target = input.text("target");
  if (target !== undefined && !input.on("dry-run")) await holdfast.work.raiseTarget({ run: id, target });
  if (max !== undefined && !input.on("dry-run")) await holdfast.work.raiseIterations({ run: id, max });
  const workflow = input.text("workflow");
  return await takeUpRun(shell, holdfast, {
    run: id,
    answers,
    limit,
    sessionMs,
    // Without a checkpoint to begin again from it says nothing about a run that has ended.
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

/** Nothing in `from`: the run goes on from where it stands. null: the person changed their mind. */
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
    throw noRollback(handle.id, rollback);
  }
  return { rollback, ...(rollback.kind === "back" ? { from: rollback.chosen } : {}) };
}

function readMax(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const max = parseCount("max", text);
  if (max > 0) return max;
  throw new HoldfastError({ code: "USAGE", message: "--max 0 would do nothing", hint: "Give a number from 1 on." });
}

/** Of a loop under way it says that it may go over the limit; one that has ended must be told where to begin again. */
async function refuseForcedEnd(handle: RunHandle): Promise<void> {
  const { state } = await handle.summary();
  if (state.kind === "open" || state.kind === "parked") return;
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

/** Only those that a workflow carries and has begun: a run that was saved by hand has nobody to go on with it. */
async function newestUnfinished(holdfast: Holdfast): Promise<string> {
  const open = (await holdfast.listRuns()).filter(
    ({ state, workflow, checkpoints }) =>
      (state.kind === "open" || state.kind === "parked") && workflow !== "manual" && checkpoints > 0,
  );
  const [newest] = open;
  if (newest !== undefined) return newest.id;
  throw new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: "No run is waiting to go on",
    hint: "Start one with `holdfast run ISSUE`; `holdfast list` shows those that have ended.",
  });
}
