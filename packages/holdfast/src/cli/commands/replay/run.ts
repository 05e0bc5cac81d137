import type { ReplayReport } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { parseCount } from "../../parse-count.ts";
import { refuseSequence } from "../../refuse-sequence.ts";
import { workflowFile } from "../../run-consent.ts";
import type { replaySpec } from "./spec.ts";
import { replayText } from "./view.ts";

export async function run(shell: Shell, input: Input<(typeof replaySpec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  refuseSequence(address, "replay");
  const to = input.text("to");
  const sequence = to === undefined ? {} : { to: parseCount("to", to) };
  const holdfast = await shell.open({ create: false });
  const { id } = await holdfast.resolveRun(address);
  const workflow = await workflowFile(shell, holdfast, { run: id, named: input.text("workflow") });
  const report = await holdfast.work.replay({ run: id, ...sequence, ...workflow, signal: shell.signal });
  shell.print({ json: () => report, text: (page) => replayText(report, page) });
  return EXITS[report.verdict];
}

const EXITS: Readonly<Record<ReplayReport["verdict"], Exit>> = {
  identical: "done",
  diverged: "diverged",
  damaged: "corrupt",
};
