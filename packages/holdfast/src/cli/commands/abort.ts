/** The `abort` command: ends a run for good and keeps its work. */
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { sendSignal } from "./stop.ts";

export const spec = {
  name: "abort",
  summary: "end a run for good; its work is kept",
  details: [
    "The agent and everything it started is ended, files and state are saved, and the run is over, with the reason in its journal. Branch, worktree and checkpoints stay. It is not resumed again, except by force from a checkpoint: `holdfast resume RUN@N --force`.",
    "A run whose process is dead is aborted at once. What was said stands, whatever crashes meanwhile. A run that is still being prepared ends before anything is begun. To go on later, use `holdfast pause` or `holdfast stop`.",
  ],
  operands: [{ name: "RUN", about: "a run id, or an issue number", required: true, completes: "run" }],
  consent: "store",
  paths: false,
  flags: {
    reason: { type: "text", value: "TEXT", about: "why, for the journal" },
    gently: { type: "boolean", about: "let an agent that is at work finish first" },
  },
  examples: [{ line: 'holdfast abort issue-42 --reason "done by hand"', about: "it is not needed any more" }],
  json: '{"run": "id", "ordered": "abort", "outcome": "done" | "ended" | "elsewhere" | "unbegun", "standing": {"kind": ...}}. Of one that had not begun "standing" is null, and "run" may be.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  return await sendSignal(shell, {
    kind: "abort",
    typed: input.operand(0),
    reason: input.text("reason") ?? "",
    now: !input.on("gently"),
  });
}
