import { writeSync } from "node:fs";
import type { ProgressEvent } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { parseCount } from "../../parse-count.ts";
import { dyingParts } from "../demo/dying-parts.ts";
import { isPoint, placeText } from "../demo/place-text.ts";
import type { demoWorkerSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof demoWorkerSpec)["flags"]>): Promise<Exit> {
  const given = input.text("die-after");
  const dieAfter = given === undefined ? Number.POSITIVE_INFINITY : parseCount("die-after", given);
  let points = 0;
  let at = { stage: "", iteration: 0, visit: 0 };
  const point = (place: string): void => {
    points += 1;
    if (points < dieAfter) return;
    // Straight to the file descriptor: nothing that is queued would be written any more.
    writeSync(1, `${JSON.stringify({ died: { place, ...at } })}\n`);
    process.kill(process.pid, "SIGKILL");
  };
  const listen = (event: ProgressEvent): void => {
    if (event.kind === "stage_entered") at = { stage: event.stage, iteration: event.iteration, visit: event.visit };
    if (isPoint(event)) point(placeText(event));
  };
  const { openHoldfast } = await import("../../../app.ts");
  await using holdfast = await openHoldfast({
    cwd: shell.cwd,
    parts: (parts) => dyingParts(parts, (what) => point(`when ${what}, before that could be written down`)),
  });
  const found = await holdfast.work.findRunFor(1);
  const watching = { listen, signal: shell.signal };
  const { outcome } =
    found.kind === "one"
      ? await holdfast.resume({ run: found.run.id, ...watching })
      : await holdfast.start({ work: { kind: "issue", number: 1 }, agent: input.text("agent") ?? null, ...watching });
  shell.write(`${JSON.stringify({ points, outcome })}\n`);
  return outcome.kind === "done" ? "done" : "failed";
}
