import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { CurrentFiles, Look, SnapshotParams } from "../../ports/workspace.ts";
import type { Captured, CaptureOptions, CapturePlace } from "./capture.ts";
import { captureWhole } from "./capture-whole.ts";
import { syncRepository } from "../objects/durable.ts";
import { findOperation } from "../git/operation.ts";
import { pinCommit } from "../objects/pin.ts";
import { quotePath } from "../raw-path.ts";
import { readHead } from "../worktree/read-head.ts";
import { snapshotIdentity } from "./snapshot-identity.ts";
import type { TreeChange } from "./tree-diff.ts";

/** Captures the worktree, pins it, and returns when it would survive a power cut. */
export async function takeSnapshot(
  place: CapturePlace,
  params: SnapshotParams,
  options: CaptureOptions,
): Promise<FilesPlane> {
  const { run, sequence, at, base } = params;
  // No commit message can hold a NUL byte, and no save should fail for its name.
  const title = params.message.replaceAll("\0", "\uFFFD");
  const message = `${title}\n\nHoldfast-Run: ${run}\nHoldfast-Sequence: ${sequence}\n`;
  const look = await lookAt(place, { message, at, ...(base === undefined ? {} : { base }) }, options);
  const ref = await pinCommit(place.repository, { run, sequence, commit: look.commit });
  await syncRepository(place.repository);
  return { ...look, ref };
}

/** The same without a ref and without a sync: for a plan, not for keeping. */
export async function lookAt(
  place: CapturePlace,
  params: Pick<SnapshotParams, "message" | "at" | "base">,
  options: CaptureOptions,
): Promise<Look> {
  const text = { message: params.message + captureLine(options), identity: snapshotIdentity(epochSeconds(params.at)) };
  const reading = readHead(place);
  const [{ head, branch }, operation, { captured, index, changes, commit }] = await Promise.all([
    reading,
    findOperation(place.gitDir),
    captureWhole({ place, options, text, head: reading.then((found) => found.head) }),
  ]);
  return {
    ...filesOf(captured),
    commit,
    worktree: place.root,
    head,
    branch,
    base: params.base ?? null,
    artifacts: changes.slice(0, MAX_ARTIFACTS).map(toArtifact),
    artifactCount: changes.length,
    index: index?.blob ?? null,
    operation,
  };
}

export function filesOf({ tree, skipped, nested }: Captured): CurrentFiles {
  return { tree, skipped, nested: nested.map(({ path, head }) => ({ path: quotePath(path), head })) };
}

/** The options that a snapshot was taken with, from its own commit message: a comparison must use the same. */
export function parseCaptureOptions(message: string): CaptureOptions | undefined {
  const match = [...message.matchAll(/^Holdfast-Capture: (\d+)( ignored)?$/gm)].at(-1);
  if (match?.[1] === undefined) return undefined;
  return { maxUntrackedBytes: Number(match[1]), includeIgnored: match[2] !== undefined };
}

const MAX_ARTIFACTS = 1000;

function toArtifact({ path, from, to }: TreeChange): FilesPlane["artifacts"][number] {
  const status = from === null ? "created" : to === null ? "deleted" : "modified";
  return { path: quotePath(path), digest: to?.id ?? null, status };
}

function epochSeconds(at: string): number {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) return Math.floor(time / 1000);
  throw new HoldfastError({ code: "USAGE", message: `${at} is not an ISO 8601 time` });
}

function captureLine(options: CaptureOptions): string {
  return `Holdfast-Capture: ${options.maxUntrackedBytes}${options.includeIgnored ? " ignored" : ""}\n`;
}
