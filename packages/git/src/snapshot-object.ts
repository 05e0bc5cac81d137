// The git object of a snapshot: an annotated tag of a tree. `git log --all` and the graphs of GUIs show commits only, so
// a ref to it does not show up there. Git's garbage collection still keeps the tree.
//
// The message records what else belongs to the snapshot: HEAD, the user's index, and the capture options.

import { type CaptureOptions, DEFAULT_CAPTURE } from "./capture.ts";
import { SNAPSHOT_AUTHOR } from "./commits.ts";
import { writeLooseObject } from "./objects.ts";
import type { Repository } from "./repository.ts";

export interface SnapshotObject {
  readonly tree: string;
  readonly head: string | null;
  /** The user's index as a blob. */
  readonly index: string | null;
  readonly capture: CaptureOptions;
}

/** The same arguments always make the same id. */
export async function writeSnapshotObject(
  repository: Repository,
  snapshot: SnapshotObject,
  text: { readonly message: string; readonly epochSeconds: number },
): Promise<string> {
  const { tree, head, index } = snapshot;
  const lines = [
    `object ${tree}`,
    "type tree",
    "tag snapshot",
    `tagger ${SNAPSHOT_AUTHOR} ${text.epochSeconds} +0000`,
    "",
    `${text.message}${captureLine(snapshot.capture)}`,
    ...(head === null ? [] : [`Holdfast-Head: ${head}`]),
    ...(index === null ? [] : [`Holdfast-Index: ${index}`]),
  ];
  return writeLooseObject(repository, "tag", Buffer.from(`${lines.join("\n")}\n`));
}

/** Also reads the commits of side worktrees, which name their capture options in the same way. */
export async function readSnapshotObject(
  repository: Repository,
  id: string,
): Promise<Omit<SnapshotObject, "tree"> | undefined> {
  const read = await repository.objects.result({ args: ["cat-file", "-p", id] });
  if (read.code !== 0) return undefined;
  const text = read.stdout.toString("utf8");
  const idIn = (line: RegExp): string | null => [...text.matchAll(line)].at(-1)?.[1] ?? null;
  return {
    head: idIn(/^Holdfast-Head: ([0-9a-f]{40,64})$/gm),
    index: idIn(/^Holdfast-Index: ([0-9a-f]{40,64})$/gm),
    capture: parseCapture(text),
  };
}

/** A comparison with a snapshot must use the options that it was captured with. */
export async function readCaptureOptions(repository: Repository, id: string): Promise<CaptureOptions> {
  return (await readSnapshotObject(repository, id))?.capture ?? DEFAULT_CAPTURE;
}

export function captureLine({ maxUntrackedBytes, includeIgnored }: CaptureOptions): string {
  return `Holdfast-Capture: ${maxUntrackedBytes}${includeIgnored ? " ignored" : ""}`;
}

function parseCapture(text: string): CaptureOptions {
  const match = [...text.matchAll(/^Holdfast-Capture: (\d+)( ignored)?$/gm)].at(-1);
  if (match === undefined) return DEFAULT_CAPTURE;
  return { maxUntrackedBytes: Number(match[1]), includeIgnored: match[2] !== undefined };
}
