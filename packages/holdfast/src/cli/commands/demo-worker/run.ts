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
  let saved = 0;
  let ends = Number.POSITIVE_INFINITY;
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
    if (point !== null && event.kind === "checkpoint") saved = passed.indexOf(point.id);
    if (event.kind === "ended") ends = saved;
  };
  const { openHoldfast } = await import("../../../app.ts");
  await using holdfast = await openHoldfast({
    cwd: shell.cwd,
    parts: (parts) => dyingParts(parts, (what) => pass(deedOf(what, at.visit))),
  });
  const watching = { listen, signal: shell.signal };
  const run = input.text("resume");
  const { outcome } =
    run === undefined
      ? await holdfast.start({ work: { kind: "issue", number: 1 }, agent: input.text("agent") ?? null, ...watching })
      : await holdfast.resume({ run, ...watching });
  shell.write(`${JSON.stringify({ points: passed, ends: Math.min(ends, passed.length), outcome })}\n`);
  return outcome.kind === "done" ? "done" : "failed";
}

async function readPoints(file: string | undefined): Promise<ReadonlyMap<string, number>> {
  if (file === undefined) return new Map();
  // Written by the demo a moment ago.
  const ids: readonly string[] = JSON.parse(await readFile(file, "utf8"));
  return new Map(ids.map((id, index) => [id, index]));
}
