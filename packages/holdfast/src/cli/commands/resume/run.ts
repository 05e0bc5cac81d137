import type { Holdfast } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import { parseAnswers } from "../../../core/resume-answers.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { modelOf, readLimits, readSession } from "../run/read-request.ts";
import type { resumeSpec } from "./spec.ts";
import { takeUpRun } from "./take-up-run.ts";

export async function run(shell: Shell, input: Input<(typeof resumeSpec)["flags"]>): Promise<Exit> {
  const answers = parseAnswers(input.texts("accept").flatMap((text) => text.split(",")));
  const limit = readLimits(input);
  const sessionMs = readSession(input);
  const agent = modelOf("agent", input.text("agent"));
  const typed = input.operand(0);
  const address = input.text("from") ?? (typed?.includes("@") === true ? typed : undefined);
  if (input.on("force") && address === undefined) {
    throw new HoldfastError({
      code: "USAGE",
      message: "--force needs a checkpoint to begin again from",
      hint: "Choose one of `holdfast list RUN`, then: `holdfast resume RUN@7 --force`.",
    });
  }
  const holdfast = await shell.open({ create: false });
  const chosen = address === undefined ? undefined : await holdfast.resolve(address);
  const id = await runOf(holdfast, typed?.split("@")[0], chosen?.run);
  const target = input.text("target");
  if (target !== undefined && !input.on("dry-run")) await holdfast.work.raiseTarget({ run: id, target });
  const workflow = input.text("workflow");
  return await takeUpRun(shell, holdfast, {
    run: id,
    answers,
    limit,
    sessionMs,
    force: input.on("force"),
    dryRun: input.on("dry-run"),
    wait: input.on("wait"),
    ...(chosen === undefined ? {} : { from: chosen.sequence }),
    ...(workflow === undefined ? {} : { workflow }),
    ...(agent === undefined ? {} : { agent }),
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
