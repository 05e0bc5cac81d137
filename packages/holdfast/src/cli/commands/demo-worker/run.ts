import { writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { ProgressEvent } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { parseCount } from "../../parse-count.ts";
import { dyingParts } from "../demo/dying-parts.ts";
import { deedOf, pointOf } from "../demo/points.ts";
import type { Point } from "../demo/points.ts";
import type { demoWorkerSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof demoWorkerSpec)["flags"]>): Promise<Exit> {
  const dieAt = input.text("die-at");
  const known = await readPoints(input.text("points"));
  const target = dieAt === undefined ? Number.POSITIVE_INFINITY : parseCount("die-at", dieAt);
  const passed: string[] = [];
  let at = { stage: "", iteration: 0, visit: 0 };
  const pass = (point: Point): void => {
    if (!passed.includes(point.id)) passed.push(point.id);
    // One that a kill made it skip for good does not let it off: the next one counts.
    if ((known.get(point.id) ?? -1) < target) return;
    // Straight to the file descriptor: nothing that is queued would be written any more.
    writeSync(1, `${JSON.stringify({ died: { place: point.place, ...at } })}\n`);
    process.kill(process.pid, "SIGKILL");
  };
  const listen = (event: ProgressEvent): void => {
    if (event.kind === "stage_entered") at = { stage: event.stage, iteration: event.iteration, visit: event.visit };
    const point = pointOf(event, at.visit);
    if (point !== null) pass(point);
  };
  const { openHoldfast } = await import("../../../app.ts");
  await using holdfast = await openHoldfast({
    cwd: shell.cwd,
    parts: (parts) => dyingParts(parts, (what) => pass(deedOf(what, at.visit))),
  });
  const found = await holdfast.work.findRunFor(1);
  const watching = { listen, signal: shell.signal };
  const { outcome } =
    found.kind === "one"
      ? await holdfast.resume({ run: found.run.id, ...watching })
      : await holdfast.start({ work: { kind: "issue", number: 1 }, agent: input.text("agent") ?? null, ...watching });
  shell.write(`${JSON.stringify({ points: passed, outcome })}\n`);
  return outcome.kind === "done" ? "done" : "failed";
}

async function readPoints(file: string | undefined): Promise<ReadonlyMap<string, number>> {
  if (file === undefined) return new Map();
  // Written by the demo a moment ago.
  const ids: readonly string[] = JSON.parse(await readFile(file, "utf8"));
  return new Map(ids.map((id, index) => [id, index]));
}
