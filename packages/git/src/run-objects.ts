// The git objects of a run as one pack, without those that its remote has: to move a run to another clone.

import { isObjectId } from "@holdfast/core/journal";
import type { ObjectText, PackedObjects } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { listRefs } from "./branch-refs.ts";
import { findMissingObjects, findUnreached, linesOf, readReached, syncRepository } from "./objects.ts";
import { createRef } from "./pins.ts";
import type { Repository } from "./repository.ts";

const COMMIT_REF = /\/(?:head|side)\/[0-9a-f]+$/;

/** Only these names below the run's own folder are packed and pinned again. */
function isRefOf(run: string, ref: string): boolean {
  const prefix = `refs/holdfast/${run}/`;
  return ref.startsWith(prefix) && REST.test(ref.slice(prefix.length));
}

const REST = /^(?:[1-9]\d{0,8}(?:-[0-9a-f]{1,64})?(?:-index[0-9a-f]?)?|(?:side|head|kept)\/[0-9a-f]{1,65})$/;

/** Thin: the receiver must have the commits in `prerequisites`, which remote-tracking branches have here. */
export async function packRun(
  repository: Repository,
  params: { readonly run: string; readonly maxBytes: number },
): Promise<PackedObjects> {
  const { run, maxBytes } = params;
  const { refs, prerequisites } = await planPack(repository, run);
  const input = linesOf(revisions(refs, prerequisites));
  const args = ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "--quiet"];
  const pack = await repository.objects.output({ args, input, maxOutputBytes: maxBytes });
  return { format: formatOf(repository), refs, prerequisites, pack };
}

async function planPack(repository: Repository, run: string): Promise<Pick<PackedObjects, "refs" | "prerequisites">> {
  const listed = await listRefs(repository, `refs/holdfast/${run}/`);
  const refs = Array.from(listed, ([ref, id]) => ({ ref, id })).filter(({ ref }) => isRefOf(run, ref));
  const commits = [...new Set(refs.filter(({ ref }) => COMMIT_REF.test(ref)).map(({ id }) => id))];
  if (commits.length === 0) return { refs, prerequisites: [] };
  const unpublished = await findUnreached(repository, { commits, refs: ["--remotes"] });
  const args = ["rev-list", "--boundary", "--stdin", "--not", "--remotes"];
  const walk = await repository.git.output({ args, input: linesOf(unpublished) });
  const boundary = unpublished.size === 0 ? [] : walk.toString("utf8").matchAll(/^-(.*)$/gm);
  const edges = Array.from(boundary, ([, id = ""]) => id);
  return { refs, prerequisites: [...new Set([...commits.filter((id) => !unpublished.has(id)), ...edges])] };
}

/** The files and messages that the pack adds, as text, to search for secrets. `isCut`: there are more than `maxBytes`. */
export async function readPackedTexts(
  repository: Repository,
  params: { readonly packed: Pick<PackedObjects, "refs" | "prerequisites">; readonly maxBytes: number },
): Promise<{ readonly texts: readonly ObjectText[]; readonly isCut: boolean }> {
  const { refs, prerequisites } = params.packed;
  const asked = { revisions: revisions(refs, prerequisites), maxBytes: params.maxBytes };
  const { objects, missing } = await readReached(repository, asked);
  const texts = objects.flatMap(({ type, where, bytes }) =>
    type === "tree" ? [] : [{ where, text: bytes.toString("utf8") }],
  );
  return { texts, isCut: missing !== null };
}

/**
 * Writes the objects, without a ref. Plumbing on our own git directory: no hook and no configuration takes part. `--strict` refuses trees
 * that git itself would not check out. NEEDS_DECISION when a commit that the run builds on is not here; FORMAT_DAMAGED when objects are.
 */
export async function unpackRun(
  repository: Repository,
  params: { readonly run: string; readonly packed: PackedObjects },
): Promise<void> {
  const { run, packed } = params;
  const { refs, prerequisites } = packed;
  if (packed.format !== formatOf(repository))
    throw refused(
      `The run's objects have the format ${packed.format}, and this repository has ${formatOf(repository)}`,
    );
  const strange = refs.find(({ ref, id }) => !isRefOf(run, ref) || !isObjectId(id));
  if (strange !== undefined || !prerequisites.every((id) => isObjectId(id)))
    throw damaged(`${JSON.stringify(strange?.ref ?? "a commit")} is not a name of this run`);
  const [absent] = await findMissingObjects(repository, prerequisites);
  if (absent !== undefined)
    throw refused(
      `This repository lacks commit ${absent}, on which the run is based`,
      "Run `git fetch` here first. If this is another repository, import the run into a clone of its own.",
    );
  if (refs.length === 0) return;
  const args = ["index-pack", "--stdin", "--strict", "--fix-thin", `--max-input-size=${packed.pack.length}`];
  const indexed = await repository.objects.result({ args, input: packed.pack });
  if (indexed.code !== 0) throw damaged(`git refuses the objects: ${indexed.stderr.trim().split("\n").at(-1) ?? ""}`);
  const input = linesOf(revisions(refs, prerequisites));
  const whole = await repository.objects.result({ args: ["rev-list", "--objects", "--quiet", "--stdin"], input });
  if (whole.code !== 0) throw damaged("objects that the run needs are not in it");
  await syncRepository(repository);
}

/** Creates the refs that keep the objects. A ref that is there is left as it is. */
export async function pinRun(
  repository: Repository,
  params: { readonly run: string; readonly refs: PackedObjects["refs"] },
): Promise<void> {
  for (const { ref, id } of params.refs)
    if (isRefOf(params.run, ref) && isObjectId(id)) await createRef(repository, [ref], id);
  await syncRepository(repository);
}

function revisions(refs: PackedObjects["refs"], prerequisites: readonly string[]): readonly string[] {
  return [...refs.map(({ id }) => id), ...prerequisites.map((id) => `^${id}`)];
}

function formatOf({ zero }: Repository): PackedObjects["format"] {
  return zero.length === 40 ? "sha1" : "sha256";
}

function damaged(why: string): HoldfastError {
  const hint = "Nothing was imported. Export the run again, or copy the file again.";
  return new HoldfastError({ code: "FORMAT_DAMAGED", message: `The git objects of the run are damaged: ${why}`, hint });
}

function refused(
  message: string,
  hint = "Import the run into a clone of the repository that it comes from.",
): HoldfastError {
  return new HoldfastError({ code: "NEEDS_DECISION", message, hint });
}
