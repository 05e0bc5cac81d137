import type { RerunReport } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import { carryRun } from "../../carry-run.ts";
import { checkNewRunId } from "../../check-run-id.ts";
import type { Input, Shell } from "../../command.ts";
import { spentKnown } from "../../output/spent-text.ts";
import { refuseSequence } from "../../refuse-sequence.ts";
import { workflowFile } from "../../run-consent.ts";
import { findStarting, stillStarting } from "../../starting-run.ts";
import { planUses, rolesOf, usesText } from "../run/plan-uses.ts";
import { planText } from "../run/plan-view.ts";
import type { rerunSpec } from "./spec.ts";
import { rerunText } from "./view.ts";

export async function run(shell: Shell, input: Input<(typeof rerunSpec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  refuseSequence(address, "rerun");
  const as = input.text("as");
  checkNewRunId(as);
  const holdfast = await shell.open({ create: false });
  const [starting] = address === undefined ? [] : await findStarting(holdfast, address);
  if (starting !== undefined) throw stillStarting(starting, "there is nothing to run again yet");
  const { id: of } = await holdfast.resolveRun(address);
  const workflow = await workflowFile(shell, holdfast, { run: of, named: input.text("workflow") });
  const plan = await holdfast.work.planRerun({
    run: of,
    publish: input.on("publish"),
    ...workflow,
    ...(as === undefined ? {} : { id: as }),
  });
  if (input.on("dry-run")) {
    const { workflow: _functions, ...shown } = plan;
    const uses = await planUses(shell, await shell.consent.stated(), plan);
    shell.print({
      json: () => ({ plan: { ...shown, uses } }),
      text: (page) => planText(plan, page) + usesText(uses, page),
    });
    return "done";
  }
  const { agentFileItems } = await import("../../../config/agent-files.ts");
  const { fallback } = (await shell.config()).settings.work.errors;
  const agents = rolesOf(plan, fallback.agents).map(({ agent }) => agent);
  await shell.consent.require({ uses: [], more: agentFileItems({ agents, root: shell.consent.root }), agents });
  let report: RerunReport | undefined;
  const exit = await carryRun(shell, holdfast, async (listen) => {
    report = await holdfast.work.rerun({ of, plan, listen, signal: shell.signal });
    return report;
  });
  const compared = report;
  if (compared === undefined) return exit;
  const { a, b } = compared.spent;
  const spent = { a: spentKnown(a), b: spentKnown(b) };
  if (shell.json) shell.write(`${JSON.stringify({ ...compared, spent })}\n`);
  else shell.write(rerunText(compared, shell.page));
  return exit === "done" && compared.compared.step !== null ? "diverged" : exit;
}
