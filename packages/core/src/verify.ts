// Verifies a store together with the git objects that its checkpoints name, and repairs what can be repaired.

import { HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, findNewerRefs } from "./adapters.ts";
import type { CheckpointSummary, FilesPlane } from "./checkpoint.ts";
import { type Problem, type VerifyEvent, allCheckpoints } from "./store.ts";
import { neededSideWorktree } from "./side-worktree-steps.ts";
import type { SnapshotRef, Workspaces } from "./workspace.ts";

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
  for await (const event of verifyTrees(adapters, params)) {
    if (event.kind === "problem") {
      if (damaged.has(keyOf(event.problem))) continue;
      problems += 1;
    }
    yield event;
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
    // Several machines can share a store that is outside of the repository, and another one may have the files.
    const broken = problems.filter(
      ({ code }) => !UNDAMAGED.has(code) && (adapters.ownsRefs || code !== "TREE_MISSING"),
    );
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

async function* verifyTrees(
  adapters: CoreAdapters,
  params: { readonly run?: string; readonly signal?: AbortSignal },
): AsyncGenerator<Extract<VerifyEvent, { kind: "problem" | "absent" }>> {
  const { store, workspaces } = adapters;
  if (workspaces === null) return;
  const runs = params.run === undefined ? (await store.listRuns()).map((run) => run.id) : [params.run];
  const refs = await workspaces.refs();
  if (adapters.ownsRefs)
    for await (const problem of rolledBack(adapters, refs, params.run)) yield { kind: "problem", problem };
  let pins = await readPins(workspaces, refs);
  const wholeTrees = new Set<string>();
  for (const run of runs) {
    const missing: CheckpointSummary[] = [];
    let newestIntact: number | null = null;
    let isFresh = false;
    for await (const checkpoint of allCheckpoints(store, run)) {
      if (params.signal?.aborted === true) return;
      const { entry, sequence } = checkpoint;
      // The store's own verification reports an unreadable checkpoint.
      const planes = await store.getCheckpoint({ run, sequence }).then(
        (read) => read.planes,
        () => null,
      );
      if (planes === null) continue;
      const commits = [...neededSideWorktree(Object.entries(planes.position.stageAttempt.steps))];
      if (!(await hasFiles(workspaces, planes.files, wholeTrees)) || !(await hasCommits(workspaces, commits))) {
        missing.push(checkpoint);
        continue;
      }
      newestIntact ??= sequence;
      let problem = pinProblem(checkpoint, planes.files, commits, pins);
      if (problem !== null && !isFresh) {
        // A run that is being executed may have saved this checkpoint after the refs were read, or dropped it since.
        pins = await readPins(workspaces, await workspaces.refs());
        isFresh = true;
        const isThere =
          (await store.listCheckpoints({ run, before: sequence + 1, limit: 1 }))[0]?.sequence === sequence;
        problem = isThere ? pinProblem(checkpoint, planes.files, commits, pins) : null;
      }
      if (problem !== null)
        yield { kind: "problem", problem: { ...problem, run, entry, sequence, trustedTo: null, newestIntact } };
    }
    // A ref proves that this repository had the files. Without one, a shared store may have them on another machine only.
    const damaged = missing.filter((one) => adapters.ownsRefs || pins.refs.has(keyOf(one)));
    const checkpoints = missing.length - damaged.length;
    if (checkpoints > 0) yield { kind: "absent", run, checkpoints };
    for (const { entry, sequence, tree } of damaged) {
      const where = adapters.ownsRefs ? "" : ` here; if another machine has them, run \`holdfast store fetch ${run}\``;
      const what = `the git objects of tree ${tree ?? "?"}, or of an open side worktree, are missing or damaged${where}`;
      const problem: Problem = { code: "TREE_MISSING", run, entry, sequence, what, trustedTo: null, newestIntact };
      yield { kind: "problem", problem };
    }
  }
}

interface Pins {
  /** Of each checkpoint, by `keyOf`. */
  readonly refs: ReadonlyMap<string, readonly SnapshotRef[]>;
  /** Commits of side worktrees. */
  readonly commits: ReadonlySet<string>;
  readonly unpinnedHeads: ReadonlySet<string>;
}

async function readPins(workspaces: Workspaces, refs: readonly SnapshotRef[]): Promise<Pins> {
  return {
    refs: Map.groupBy(refs, keyOf),
    commits: new Set((await workspaces.sideWorktrees.refs()).map(({ commit }) => commit)),
    unpinnedHeads: await workspaces.unpinned([...new Set(refs.flatMap(({ head }) => head ?? []))]),
  };
}

/** Whether the next `git gc` may take objects of a checkpoint that is whole. */
function pinProblem(
  checkpoint: CheckpointSummary,
  files: FilesPlane | null,
  commits: readonly string[],
  pins: Pins,
): Pick<Problem, "code" | "what"> | null {
  if (files === null) return null;
  const held = pins.refs.get(keyOf(checkpoint)) ?? [];
  const [other] = held;
  if (other !== undefined && !held.some((ref) => ref.snapshot === files.snapshot)) {
    const what = `the ref ${other.ref} names ${other.snapshot} instead of ${files.snapshot}: the next \`git gc\` may take its git objects`;
    return { code: "PIN_MOVED", what };
  }
  const isBased = held.every(({ head }) => head === null || !pins.unpinnedHeads.has(head));
  if (held.length > 0 && isBased && commits.every((commit) => pins.commits.has(commit))) return null;
  return { code: "PIN_MISSING", what: "the ref that holds its git objects is gone: the next `git gc` may take them" };
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

/** Checkpoints share trees, but each has a snapshot of its own. */
async function hasFiles(workspaces: Workspaces, files: FilesPlane | null, wholeTrees: Set<string>): Promise<boolean> {
  if (files === null) return true;
  const here = await workspaces.has(files, { treeIsWhole: wholeTrees.has(files.tree) });
  if (here) wholeTrees.add(files.tree);
  return here;
}

/** Commits of the side worktrees that a checkpoint holds open: without them the run cannot continue from it. */
async function hasCommits(workspaces: Workspaces, commits: readonly string[]): Promise<boolean> {
  for (const commit of commits) {
    const tree = await workspaces.sideWorktrees.treeOf(commit).catch(nullIfMissing);
    if (tree === null || !(await workspaces.has({ tree, snapshot: commit }))) return false;
  }
  return true;
}

/** What git could not answer, because it was killed for example, says nothing about the commit. */
function nullIfMissing(error: unknown): null {
  if (error instanceof HoldfastError && error.code === "TREE_MISSING") return null;
  throw error;
}

function keyOf(problem: Pick<Problem, "run" | "sequence">): string {
  return `${problem.run ?? ""}@${problem.sequence ?? ""}`;
}
