/** The `pause` command: stops a run at the next safe point, until it is resumed. */
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { sendSignal } from "./stop.ts";

export const spec = {
  name: "pause",
  summary: "let a run stop at the next safe point, until it is resumed",
  details: [
    "Between two steps: an agent that is at work may finish, so nothing of what it does is lost or paid for twice. Waits until the run has stopped; Ctrl+C ends the waiting, and the run pauses all the same. With --now the agent is ended.",
    "What was said stands, whatever crashes: a run whose process is dead is paused at once, and one that waits for a quota does not go on when it comes. `holdfast resume` goes on; of a run that has not stopped yet it takes the pause back.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the one that runs",
      required: false,
      completes: "run",
    },
  ],
  consent: "store",
  paths: false,
  flags: {
    now: { type: "boolean", about: "do not wait for the agent: end it, and save what it did" },
    reason: { type: "text", value: "TEXT", about: "why, for the journal" },
  },
  examples: [
    { line: "holdfast pause issue-42", about: "when its agent has finished what it does now" },
    { line: "holdfast pause issue-42 --now && holdfast resume issue-42", about: "begin the agent's call anew" },
  ],
  json: '{"run": "id", "ordered": "pause", "outcome": "done" | "standing" | "ended" | "elsewhere", "standing": {"kind": ...}}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  return await sendSignal(shell, {
    kind: "pause",
    typed: input.operand(0),
    reason: input.text("reason") ?? "",
    now: input.on("now"),
  });
}
