import type { Holdfast, Repaired } from "../../../app.ts";
import type { VerifyEvent } from "../../../ports/store.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { refuseSequence } from "../../refuse-sequence.ts";
import { repairText, verifyText } from "./view.ts";
import type { verifySpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof verifySpec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  refuseSequence(address, "verify");
  const holdfast = await shell.open({ create: false, writes: input.on("quarantine") && !input.on("dry-run") });
  const only = address === undefined ? undefined : (await holdfast.resolveRun(address)).id;
  const events = await readEvents(shell, holdfast, only);
  const problems = events.flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
  const summary = events.find((event) => event.kind === "summary") ?? null;
  const ok = problems.length === 0 && summary?.ok === true;
  const act = input.on("quarantine") && !input.on("dry-run") && !ok;
  const repaired = act ? await repair(shell, holdfast, events) : [];
  shell.print({
    json: () => ({ ok, summary, problems, repaired }),
    text: (page) =>
      verifyText({ ok, summary, problems }, page) +
      repairText({ repaired, problems, asked: input.on("quarantine"), act }),
  });
  if (!ok && !input.on("quarantine"))
    shell.say(`Set damaged checkpoints aside (nothing is deleted): ${shell.talk.program} verify --quarantine`);
  return ok ? "done" : "corrupt";
}

async function repair(shell: Shell, holdfast: Holdfast, events: readonly VerifyEvent[]): Promise<readonly Repaired[]> {
  return await shell.finish(holdfast.repair(events), {
    done: (repaired) => (repaired.length === 0 ? null : "what was damaged was set aside"),
  });
}

async function readEvents(shell: Shell, holdfast: Holdfast, run: string | undefined): Promise<readonly VerifyEvent[]> {
  const progress = shell.progress();
  const events: VerifyEvent[] = [];
  let problems = 0;
  try {
    for await (const event of holdfast.verify({ signal: shell.signal, ...(run === undefined ? {} : { run }) })) {
      if (event.kind === "problem") problems += 1;
      if (event.kind === "progress")
        progress.update(`Verifying ${event.run}: ${event.checked} checked, ${problems} damaged`);
      else events.push(event);
    }
  } finally {
    progress.done();
  }
  return events;
}
