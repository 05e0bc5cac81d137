import type { CheckpointSummary, Trigger } from "@holdfast/core/checkpoint";
import type { Holdfast } from "../../../src/holdfast.ts";
import type { RunHandle } from "@holdfast/core/run-handle";
import { planesOf, RUN } from "./scenario.ts";

/** The run of the scenario, which saves the current worktree; created if it does not exist. */
export async function runHere(holdfast: Holdfast): Promise<RunHandle> {
  return holdfast.createRun({ id: RUN, workflow: "none", workspace: "here" });
}

/** One save of state and files together. */
export async function saveHere(
  run: RunHandle,
  sequence: number,
  trigger: Trigger = "manual",
): Promise<CheckpointSummary> {
  const { files: _captured, ...planes } = planesOf(sequence);
  return run.save({ planes, trigger });
}
