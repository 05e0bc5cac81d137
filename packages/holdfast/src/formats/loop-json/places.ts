import { isUsableLoopId } from "./loop-id.ts";

export type Compression = "none" | "gzip" | "lz4";

// A document may name lz4. Holdfast does not write LZ4, so such a document is written without compression.
const SUFFIX: Readonly<Record<Compression, string>> = { none: ".json", gzip: ".json.gz", lz4: ".json" };

/** What decides where a checkpoint lies. */
export interface Placed {
  readonly loopId: string | null;
  readonly workflowId: string;
  readonly iteration: number;
  /** ISO 8601 UTC. */
  readonly createdAt: string;
  readonly trigger: string;
  readonly compression: Compression;
}

/**
 * A loop id decides, and nothing else: with one, the loop's own directory; without, the legacy directory, also for a
 * loop. Names are as published: in a loop's directory a second checkpoint of an iteration has the name of the first, so
 * whoever writes must look first.
 */
export function checkpointPlace(placed: Placed): string {
  return `${checkpointDirectory(placed.loopId)}${checkpointName(placed)}`;
}

/**
 * For the second and later checkpoints of an iteration: under the published name each would take the place of the one before. This is
 * the name that the tool's own recovery looks for. null in the legacy layout, whose names are distinct.
 */
export function secondPlace(placed: Placed): string | null {
  if (placed.loopId === null) return null;
  const time = Date.parse(placed.createdAt);
  const at = Number.isNaN(time) ? 0 : time;
  return `${checkpointDirectory(placed.loopId)}checkpoint-${placed.iteration}-${at}${SUFFIX[placed.compression]}`;
}

export function checkpointDirectory(loopId: string | null): string {
  return loopId === null ? ".aiwg/checkpoints/" : `.aiwg/ralph/loops/${loopId}/checkpoints/`;
}

function checkpointName(placed: Placed): string {
  const suffix = SUFFIX[placed.compression];
  if (placed.loopId !== null) return `iteration-${String(placed.iteration).padStart(3, "0")}${suffix}`;
  const time = placed.createdAt.replace(".000Z", "Z").replaceAll(":", "-");
  return `${placed.workflowId.replaceAll(/[^A-Za-z0-9._-]+/g, "-")}-${time}-${placed.trigger}${suffix}`;
}

/** What a path says about the checkpoint in it. Readers and descriptions of the format use four names; all are known. */
export type Place =
  | {
      readonly kind: "multi_loop";
      readonly loopId: string;
      readonly iteration: number;
      readonly compression: Compression;
    }
  | {
      readonly kind: "legacy";
      readonly workflowId: string;
      /** As in the name: with hyphens for colons. */
      readonly time: string;
      readonly trigger: string;
      readonly compression: Compression;
    };

export function readPlace(path: string): Place | null {
  const slashed = path.replaceAll("\\", "/");
  const inLoop = IN_LOOP.exec(slashed)?.groups;
  if (inLoop !== undefined) {
    const { loop = "", suffix } = inLoop;
    const iteration = inLoop["iteration"] ?? inLoop["number"];
    if (!isUsableLoopId(loop)) return null;
    return { kind: "multi_loop", loopId: loop, iteration: Number(iteration), compression: compressionOf(suffix) };
  }
  const legacy = LEGACY.exec(slashed)?.groups;
  if (legacy === undefined) return null;
  const { workflow = "", time = "", trigger = "", suffix } = legacy;
  return { kind: "legacy", workflowId: workflow, time, trigger, compression: compressionOf(suffix) };
}

const IN_LOOP =
  /(?:^|\/)\.aiwg\/ralph\/loops\/(?<loop>[^/]+)\/checkpoints\/(?:iteration-(?<iteration>\d{1,9})|checkpoint-(?<number>\d{1,9})(?:-\d+)?)\.json(?<suffix>\.gz|\.lz4)?$/;
const LEGACY =
  /(?:^|\/)\.aiwg\/checkpoints\/(?<workflow>[^/]+)-(?<time>\d{4}-\d\d-\d\dT[\d.-]+Z)-(?<trigger>[a-z_]+)\.json(?<suffix>\.gz|\.lz4)?$/;

function compressionOf(suffix: string | undefined): Compression {
  if (suffix === ".gz") return "gzip";
  return suffix === ".lz4" ? "lz4" : "none";
}

export type LoopKind = "multi_loop" | "single_loop" | "no_loop";

/** On reading: a loop without an id is one of the time when there was one loop, and stays where it is. */
export function loopKind(document: { readonly loopId: string | null; readonly workflowType: string | null }): LoopKind {
  if (document.loopId !== null) return "multi_loop";
  return document.workflowType === "ralph_loop" ? "single_loop" : "no_loop";
}
