import type { GcPlan } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { refuseSequence } from "../../refuse-sequence.ts";
import { RETENTION_PRESETS } from "../../../core/retention/retention.ts";
import { loopsReportText, loopsText } from "./loops-view.ts";
import { dropsOf, gcOutcome, gcReportText, planText } from "./view.ts";
import type { gcSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof gcSpec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  refuseSequence(address, "gc");
  const holdfast = await shell.open({ create: false, writes: !input.on("dry-run") });
  const only = address === undefined ? {} : { run: (await holdfast.resolveRun(address)).id };
  const named = (["standard", "loops"] as const).find((name) => name === input.text("retention"));
  const policy = named === undefined ? {} : { policy: RETENTION_PRESETS[named] };
  const plan = await holdfast.planGc({ ...only, ...policy });
  const loops = await holdfast.foreign.planLoopCleanup(only);
  if (input.on("dry-run")) {
    shell.print({
      json: () => ({ plan, loops, dryRun: true }),
      text: (page) => planText(plan, page) + loopsText(loops, page),
    });
    return "done";
  }
  if (!input.on("yes") && dropsOf(plan).length > 0 && !(await decide(shell, plan))) return "decision";
  const report = await shell.finish(holdfast.applyGc(plan), { done: gcOutcome });
  await shell.finish(holdfast.foreign.applyLoopCleanup(loops), { done: () => null });
  shell.print({
    json: () => ({ plan, loops, dryRun: false, report }),
    text: () => gcReportText(report) + loopsReportText(loops),
  });
  return "done";
}

async function decide(shell: Shell, plan: GcPlan): Promise<boolean> {
  shell.say(planText(plan, shell.talk));
  const count = dropsOf(plan).length;
  const answer = await shell.confirm(
    `Drop ${count === 1 ? "1 checkpoint" : `${count} checkpoints`}? This cannot be undone.`,
  );
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.say(
      `Nothing was dropped. What is kept is set in holdfast.config.yaml; ${shell.talk.program} init writes one.`,
    );
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: "Checkpoints would be dropped, and there is nobody to ask",
    hint: "Look with `holdfast gc --dry-run`, then `holdfast gc --yes`.",
  });
}
