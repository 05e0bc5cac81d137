// Verifies a store together with the git objects that its checkpoints name, and repairs what can be repaired.

import { type CoreAdapters, findNewerRefs } from "./adapters.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import { type Problem, type VerifyEvent, allCheckpoints } from "./store.ts";
import { type SnapshotRef, neededSideWorktree } from "./workspace.ts";

/** Yields the store's own verification, then a check of every tree that a checkpoint names; one summary for both. */
export async function* verifyRun(
  adapters: CoreAdapters,
  params: { readonly run?: string; readonly signal?: AbortSignal },
): AsyncGenerator<VerifyEvent> {
  const damaged = new Set<string>();
  let problems = 0;
  let summary: Extract<VerifyEvent, { kind: "summary" }> | undefined;
  for await (const event of adapters.store.verify(params)) {
    if (event.kind === "summary") {
      summary = event;
      continue;
    }
    if (event.kind === "problem") damaged.add(keyOf(event.problem));
    yield event;
  }
  for await (const problem of treeProblems(adapters, params)) {
    if (damaged.has(keyOf(problem))) continue;
    problems += 1;
    yield { kind: "problem", problem };
  }
  if (summary !== undefined)
    yield { ...summary, ok: summary.ok && problems === 0, problems: summary.problems + problems };
}

export interface Repaired {
  readonly run: string;
  /** Marked as damaged: no resume uses them. */
  readonly quarantined: readonly number[];
  /** Pinned again: their objects existed, but no ref kept them. */
  readonly pinned: readonly number[];
  readonly newestIntact: number | null;
}

/** Quarantines damaged checkpoints, so that no resume uses them, and recreates missing refs. */
export async function repair(adapters: CoreAdapters, events: readonly VerifyEvent[]): Promise<readonly Repaired[]> {
  const byRun = new Map<string, Problem[]>();
  for (const event of events) {
    if (event.kind !== "problem" || event.problem.run === null || event.problem.sequence === null) continue;
    byRun.set(event.problem.run, [...(byRun.get(event.problem.run) ?? []), event.problem]);
  }
  const done: Repaired[] = [];
  for (const [run, problems] of byRun) {
    const pinned = sequencesOf(problems.filter(({ code }) => code === "PIN_MISSING" || code === "PIN_MOVED"));
    const broken = problems.filter(({ code }) => !UNDAMAGED.has(code));
    const quarantined = sequencesOf(broken);
    for (const sequence of pinned) await pinAgain(adapters, run, sequence);
    const [first] = broken;
    if (first !== undefined) await adapters.store.quarantine({ run, sequences: quarantined, reason: first.what });
    done.push({ run, quarantined, pinned, newestIntact: first?.newestIntact ?? null });
  }
  return done;
}

/** With these codes the checkpoint itself is intact. */
const UNDAMAGED: ReadonlySet<Problem["code"]> = new Set<Problem["code"]>([
  "PIN_MISSING",
  "PIN_MOVED",
  "HIGH_WATER_CUT",
  "STORE_ROLLED_BACK",
]);

function sequencesOf(problems: readonly Problem[]): readonly number[] {
  return [...new Set(problems.flatMap(({ sequence }) => (sequence === null ? [] : [sequence])))];
}

async function pinAgain(adapters: CoreAdapters, run: string, sequence: number): Promise<void> {
  const { files, position } = (await adapters.store.getCheckpoint({ run, sequence })).planes;
  if (files !== null) await adapters.workspaces?.pin({ run, sequence, snapshot: files.snapshot });
  for (const commit of neededSideWorktree(Object.entries(position.stageAttempt.steps)))
    await adapters.workspaces?.sideWorktrees.pin({ run, commit });
}

async function* treeProblems(
  adapters: CoreAdapters,
  params: { readonly run?: string; readonly signal?: AbortSignal },
): AsyncGenerator<Problem> {
  const { store, workspaces } = adapters;
  if (workspaces === null) return;
  const runs = params.run === undefined ? (await store.listRuns()).map((run) => run.id) : [params.run];
  const refs = await workspaces.refs();
  const pins = new Map<string, SnapshotRef[]>();
  for (const ref of refs) pins.set(keyOf(ref), [...(pins.get(keyOf(ref)) ?? []), ref]);
  if (adapters.ownsRefs) yield* rolledBack(adapters, refs, params.run);
  const pinned = new Set((await workspaces.sideWorktrees.refs()).map(({ commit }) => commit));
  const unpinnedHeads = await workspaces.unpinned([...new Set(refs.flatMap(({ head }) => head ?? []))]);
  const present = new Map<string, boolean>();
  for (const run of runs) {
    const missing: CheckpointSummary[] = [];
    let newestIntact: number | null = null;
    for await (const checkpoint of allCheckpoints(store, run)) {
      if (params.signal?.aborted === true) return;
      const { id, entry, sequence, tree } = checkpoint;
      if (!(await hasTree(adapters, checkpoint, present))) {
        missing.push(checkpoint);
        continue;
      }
      const sideWorktrees = await examineSideWorktrees(adapters, checkpoint, pinned);
      if (sideWorktrees === "missing") {
        missing.push(checkpoint);
        continue;
      }
      newestIntact ??= sequence;
      if (tree === null) continue;
      const held = pins.get(id) ?? [];
      const snapshot = await snapshotOf(adapters, checkpoint);
      const [other] = held;
      if (snapshot !== null && other !== undefined && !held.some((ref) => ref.snapshot === snapshot)) {
        const what = `the ref ${other.ref} names ${other.snapshot} instead of ${snapshot}: the next \`git gc\` may take its git objects`;
        yield { code: "PIN_MOVED", run, entry, sequence, what, trustedTo: null, newestIntact };
        continue;
      }
      const isBased = held.every(({ head }) => head === null || !unpinnedHeads.has(head));
      if (held.length > 0 && isBased && sideWorktrees === "whole") continue;
      const what = "the ref that holds its git objects is gone: the next `git gc` may take them";
      yield { code: "PIN_MISSING", run, entry, sequence, what, trustedTo: null, newestIntact };
    }
    for (const { entry, sequence, tree } of missing) {
      const what = `the git objects of tree ${tree ?? "?"}, or of an open side worktree, are missing or damaged`;
      yield { code: "TREE_MISSING", run, entry, sequence, what, trustedTo: null, newestIntact };
    }
  }
}

/** Null: it cannot be read, which the store's own verification reports. */
async function snapshotOf({ store }: CoreAdapters, { run, sequence }: CheckpointSummary): Promise<string | null> {
  const checkpoint = await store.getCheckpoint({ run, sequence }).catch(() => undefined);
  return checkpoint?.planes.files?.snapshot ?? null;
}

async function* rolledBack(
  adapters: CoreAdapters,
  refs: readonly SnapshotRef[],
  only: string | undefined,
): AsyncGenerator<Problem> {
  for (const run of new Set(refs.map((ref) => ref.run))) {
    if (only !== undefined && run !== only) continue;
    const newer = await findNewerRefs(adapters, run, refs);
    const [first] = newer;
    if (first === undefined) continue;
    const what = `the repository has ${first.ref}${newer.length > 1 ? ` and ${newer.length - 1} more refs` : ""}, of checkpoints that the store ${adapters.store.location} does not know: it is an older copy of itself`;
    const { sequence } = first;
    yield { code: "STORE_ROLLED_BACK", run, entry: null, sequence, what, trustedTo: null, newestIntact: null };
  }
}

/** Checks the side worktrees that the checkpoint holds open: without their commits the run cannot continue from it. */
async function examineSideWorktrees(
  { store, workspaces }: CoreAdapters,
  { run, sequence }: CheckpointSummary,
  pinned: ReadonlySet<string>,
): Promise<"whole" | "unpinned" | "missing"> {
  // The store's own verification reports an unreadable checkpoint.
  const checkpoint = await store.getCheckpoint({ run, sequence }).catch(() => undefined);
  const needed = neededSideWorktree(Object.entries(checkpoint?.planes.position.stageAttempt.steps ?? {}));
  for (const commit of needed) {
    const tree = await workspaces?.sideWorktrees.treeOf(commit).catch(() => null);
    if (tree === null || tree === undefined || !(await workspaces?.has({ tree, snapshot: commit }))) return "missing";
  }
  return [...needed].every((commit) => pinned.has(commit)) ? "whole" : "unpinned";
}

async function hasTree(
  adapters: CoreAdapters,
  { run, sequence, tree }: CheckpointSummary,
  present: Map<string, boolean>,
): Promise<boolean> {
  if (tree === null || adapters.workspaces === null) return true;
  const known = present.get(tree);
  if (known !== undefined) return known;
  let here: boolean;
  try {
    const { files } = (await adapters.store.getCheckpoint({ run, sequence })).planes;
    here = files === null || (await adapters.workspaces.has(files));
  } catch {
    // The store's own verification reports an unreadable checkpoint.
    here = true;
  }
  present.set(tree, here);
  return here;
}

function keyOf(problem: Pick<Problem, "run" | "sequence">): string {
  return `${problem.run ?? ""}@${problem.sequence ?? ""}`;
}
