import { Disk } from "./disk.ts";
import type { Operation } from "./operation.ts";
import { trace } from "./traced.ts";
import type { TraceParams } from "./traced.ts";
import type { WorldFolder } from "./world.ts";
import { compareWorlds, readWorld } from "./world.ts";

/** A run of a writer without faults: where it began, and all it did. */
export interface Recording {
  readonly root: string;
  readonly before: WorldFolder;
  readonly operations: readonly Operation[];
  readonly stdout: string;
}

/**
 * Rejects an incomplete recording: replayed over the first state, it must yield the writer's folder byte for byte. An
 * operation that the tracer does not know is found here, instead of being a state that is never tried.
 */
export async function record(params: Omit<TraceParams, "fault">): Promise<Recording> {
  const before = readWorld(params.root);
  const ended = await trace(params);
  if (ended.code !== 0)
    throw new Error(`the writer failed without any fault (exit ${ended.code}): ${ended.stderr}\n${ended.stdout}`);
  const disk = new Disk({ model: "posix", rootPath: params.root, world: before });
  for (const operation of ended.operations) disk.apply(operation);
  const missed = compareWorlds(disk.afterKill(), readWorld(params.root));
  if (missed.length > 0) throw new Error(`the recording is not whole: ${missed.join(", ")}`);
  return { root: params.root, before, operations: ended.operations, stdout: ended.stdout };
}

/** A run with a fault in it: what the disk may hold afterwards is found by playing it over the model. */
export async function recordFaulty(
  params: TraceParams,
): Promise<Recording & { readonly code: number | null; readonly stderr: string }> {
  const before = readWorld(params.root);
  const { code, operations, stdout, stderr } = await trace(params);
  return { root: params.root, before, operations, stdout, stderr, code };
}

/** Everything that the writer printed in the first `count` operations. */
export function saidBefore(recording: Recording, count: number): readonly string[] {
  const lines: string[] = [];
  for (const operation of recording.operations.slice(0, count)) {
    if (operation.kind === "print") lines.push(...operation.text.split("\n").filter((line) => line !== ""));
  }
  return lines;
}

/** How many operations a fault can be put at. */
export function countedIn(recording: Pick<Recording, "operations">): number {
  return recording.operations.reduce((most, operation) => Math.max(most, operation.number), 0);
}
