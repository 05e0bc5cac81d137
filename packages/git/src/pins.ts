// Refs that protect snapshots and commits of runs from git's garbage collection.

import { existsSync } from "node:fs";
import { open, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { RUN_ID } from "@holdfast/core/run";
import type { SideWorktreeRef, SnapshotRef } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import type { ProcessResult } from "@holdfast/platform/subprocess";
import { retryWhileLocked } from "./branch-refs.ts";
import { findMissingObjects, missingCommit, syncRepository } from "./objects.ts";
import type { Repository } from "./repository.ts";
import { PIN, removeStaleLock, withStaleFileCleanup } from "./stale-files.ts";

/**
 * Creates a ref for a snapshot, so that no gc removes it. An existing ref is never moved: it may be the only one that
 * protects a checkpoint's files.
 *
 * A second, different snapshot of the same sequence (after a crash, or by a worker that lost its lease) gets another
 * name. So does a snapshot whose name is locked: a killed git leaves its lock, and the user should not have to remove
 * it. Garbage collection later removes refs that no checkpoint names.
 */
export async function pinSnapshot(repository: Repository, params: PinParams): Promise<string> {
  const plain = snapshotRef(params);
  const own = `${plain}-${params.commit}`;
  let refused: ProcessResult | undefined;
  for (const ref of [plain, own, ...[...SPARE].map((digit) => own + digit)]) {
    const made = await repository.git.result({ args: ["update-ref", ref, params.commit, repository.zero] });
    const there = made.code === 0 ? params.commit : await readRef(repository, ref);
    if (there === params.commit) return ref;
    if (there === undefined && !existsSync(join(repository.commonDir, `${ref}.lock`))) {
      throw gitError(["update-ref", ref], made);
    }
    refused = made;
  }
  throw refused === undefined
    ? new HoldfastError({ code: "INTERNAL", message: `no name was tried for snapshot ${plain}` })
    : gitError(["update-ref", plain], refused);
}

interface PinParams {
  readonly run: string;
  readonly sequence: number;
  readonly commit: string;
}

/**
 * The parents of a snapshot are HEAD, then the user's index. Without any commit the index is the first parent, which
 * only protects more.
 */
export async function listPins(repository: Repository, run?: string): Promise<SnapshotRef[]> {
  const below = run !== undefined && RUN_ID.test(run) ? `${NAMESPACE}${run}/` : NAMESPACE;
  const all = await repository.git.result({ args: ["for-each-ref", FACTS, below] });
  if (all.code === 0) return parsePins(all.stdout);
  // One damaged commit makes git fail for the whole list. Separate calls return the others.
  const names = await repository.git.line({ args: ["for-each-ref", "--format=%(refname)", below] });
  const pins = await Promise.all(names.split("\n").map((ref) => damagedOrWhole(repository, ref)));
  return pins.flat();
}

/** 0 when git cannot tell, for example because an object is damaged. */
export async function pinnedBytes(repository: Repository, run?: string): Promise<number> {
  const below = run !== undefined && RUN_ID.test(run) ? `${NAMESPACE}${run}/` : NAMESPACE;
  const elsewhere = ["--not", "--branches", "--tags", "--remotes"];
  const args = ["rev-list", "--objects", "--disk-usage", `--glob=${below}`, ...elsewhere];
  const counted = await repository.git.result({ args });
  return counted.code === 0 ? Number(counted.stdout.toString("utf8").trim()) : 0;
}

const FACTS = "--format=%(objectname) %(refname) %(committerdate:unix) %(parent)";

/** The age and parents of a damaged commit are unknown. It counts as fresh, so that no gc removes its ref. */
async function damagedOrWhole(repository: Repository, ref: string): Promise<SnapshotRef[]> {
  const one = await repository.git.result({ args: ["for-each-ref", FACTS, ref] });
  if (one.code === 0) return parsePins(one.stdout);
  const name = await repository.git.line({ args: ["for-each-ref", "--format=%(objectname) %(refname)", ref] });
  return parsePins(Buffer.from(`${name} ${Math.floor(Date.now() / 1000)} `));
}

function parsePins(output: Buffer): SnapshotRef[] {
  return output
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      const [, commit, ref, run, sequence, seconds, head] = SNAPSHOT_REF_LINE.exec(line) ?? [];
      if (commit === undefined || ref === undefined || run === undefined) return [];
      const createdAt = new Date(Number(seconds) * 1000).toISOString();
      return [{ ref, run, sequence: Number(sequence), commit, head: head === "" ? null : (head ?? null), createdAt }];
    });
}

const SNAPSHOT_REF_LINE =
  /^([0-9a-f]+) (refs\/holdfast\/([^/]+)\/(\d+)(?:-[0-9a-f]+)?) (\d+) ?([0-9a-f]*)(?: [0-9a-f]+)?$/;

export async function removePins(repository: Repository, refs: readonly string[]): Promise<void> {
  const other = refs.find((ref) => !PIN.test(ref));
  if (other !== undefined) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${other} is not a snapshot ref`,
      hint: "Only refs under refs/holdfast/ can be removed.",
    });
  }
  if (refs.length === 0) return;
  await withStaleFileCleanup(repository, { kind: "unpinning", refs }, async (env) => {
    const packed = await readPackedRefs(repository);
    const rest: string[] = [];
    for (const ref of refs) if (packed.has(ref) || !(await removeLoose(repository, ref))) rest.push(ref);
    if (rest.length === 0) return;
    const commands = rest.map((ref) => `delete ${ref}\n`).join("");
    await repository.git.output({ args: ["update-ref", "--stdin"], input: Buffer.from(commands), env });
  });
}

const SPARE = "0123456789abcdef";

async function readPackedRefs(repository: Repository): Promise<ReadonlySet<string>> {
  const text = await readFile(join(repository.commonDir, "packed-refs"), "latin1").catch(() => "");
  return new Set(text.split("\n").map((line) => line.slice(line.indexOf(" ") + 1)));
}

/**
 * Deletes the ref under its own lock, as git does, but without locking packed-refs. A killed `git update-ref -d` leaves
 * packed-refs locked, and then the user's git cannot delete branches. Returns false if git has to do it.
 */
async function removeLoose(repository: Repository, ref: string): Promise<boolean> {
  const path = join(repository.commonDir, ref);
  const lock = `${path}.lock`;
  if (!existsSync(path)) return false;
  await removeStaleLock(lock);
  try {
    await (await open(lock, "wx")).close();
  } catch {
    return false;
  }
  await rm(path, { force: true });
  await rm(lock, { force: true });
  return true;
}

const NAMESPACE = "refs/holdfast/";

function snapshotRef(params: Pick<PinParams, "run" | "sequence">): string {
  if (!RUN_ID.test(params.run) || !Number.isSafeInteger(params.sequence) || params.sequence < 0) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${params.run}@${params.sequence} cannot name a snapshot`,
      hint: "A run is lower-case letters, digits and dashes; a sequence is a whole number.",
    });
  }
  return `${NAMESPACE}${params.run}/${params.sequence}`;
}

async function readRef(repository: Repository, ref: string): Promise<string | undefined> {
  const found = await repository.git.result({ args: ["rev-parse", "--verify", "--quiet", "--end-of-options", ref] });
  return found.code === 0 ? found.stdout.toString("utf8").trim() : undefined;
}

/**
 * Creates a ref outside the namespace of the snapshots, named after the commit. Garbage collection, which removes
 * snapshots without a checkpoint, does not see it. The name identifies the commit, so a repeated call finds the
 * existing ref.
 */
export async function pinRunCommit(
  repository: Repository,
  params: { readonly run: string; readonly commit: string },
): Promise<string> {
  const { run, commit } = params;
  if (!RUN_ID.test(run) || !ID.test(commit)) {
    throw new HoldfastError({ code: "USAGE", message: `${commit} of run ${run} cannot be kept under that name` });
  }
  if ((await findMissingObjects(repository, [commit])).length > 0) {
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `Commit ${commit} is not in this repository`,
      hint: "Fetch it from where it is (`git fetch`), then try again.",
      data: { commit },
    });
  }
  const ref = `refs/holdfast/${run}/kept/${commit}`;
  const args = ["update-ref", ref, commit];
  const kept = await retryWhileLocked(join(repository.commonDir, `${ref}.lock`), () => repository.git.result({ args }));
  if (kept.code !== 0) throw gitError(args, kept);
  return ref;
}

const ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/**
 * Pins the commit of a side worktree under its own id, so that two side worktrees of the same commit share the ref. A
 * repeated call after a kill finds it. A killed git leaves the lock of a ref; then the next spare name is used.
 */
export async function pinSideWorktree(
  repository: Repository,
  params: { readonly run: string; readonly commit: string },
): Promise<string> {
  const { run, commit } = params;
  if (!RUN_ID.test(run) || !ID.test(commit)) {
    throw new HoldfastError({ code: "USAGE", message: `${commit} of run ${run} cannot be pinned under that name` });
  }
  if ((await findMissingObjects(repository, [commit])).length > 0) throw missingCommit(commit);
  const plain = `refs/holdfast/${run}/side/${commit}`;
  for (const ref of [plain, ...[...SPARE].map((digit) => plain + digit)]) {
    const args = ["update-ref", ref, commit];
    const made = await repository.git.result({ args });
    if (made.code === 0) {
      await syncRepository(repository);
      return ref;
    }
    if (!existsSync(join(repository.commonDir, `${ref}.lock`))) throw gitError(args, made);
  }
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `every name for ${plain} is locked`,
    hint: "Wait for the git that works there; if none is running, remove those lock files.",
    retry: "later",
  });
}

export async function listSideWorktreePins(repository: Repository): Promise<readonly SideWorktreeRef[]> {
  const args = ["for-each-ref", "--format=%(objectname) %(refname) %(committerdate:unix)", "refs/holdfast/*/side/**"];
  const listed = await repository.git.result({ args });
  return listed.stdout
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      const [, commit, ref, run, seconds] = SIDE_REF_LINE.exec(line) ?? [];
      if (commit === undefined || ref === undefined || run === undefined) return [];
      return [{ ref, run, commit, createdAt: new Date(Number(seconds) * 1000).toISOString() }];
    });
}

const SIDE_REF_LINE = /^([0-9a-f]+) (refs\/holdfast\/([^/]+)\/side\/[0-9a-f]+) (\d+)$/;
