// Removes a whole run: its worktrees, branch, refs, checkpoints and logs. Its journal and the receipts of its side effects stay as a tombstone.
import { HoldfastError } from "@holdfast/platform/error";
import type { CoreAdapters } from "./adapters.ts";
import type { Effect } from "./effects.ts";
import type { Forge, PullRequest } from "./forge.ts";
import { acquireLease } from "./hold-lease.ts";
import { asRecord, object, parseJsonAs, text } from "./json.ts";
import { type RunSummary, isEnded } from "./run.ts";
import { type Store, allCheckpoints } from "./store.ts";
import type { RunRemains } from "./workspace.ts";

/** What stays of a removed run, besides its journal and its effects. */
export interface RunTombstone {
  readonly removedAt: string;
  readonly by: string;
}

const TOMBSTONE = object<RunTombstone>({ removedAt: text, by: text });
/** Set once a run was removed, so that a store without removed runs needs no look at each run. */
const ANY_REMOVED = "runs.removed";

export async function readRunTombstone(store: Pick<Store, "getMeta">, run: string): Promise<RunTombstone | undefined> {
  const stored = await store.getMeta(tombstoneKey(run));
  return stored === undefined ? undefined : parseJsonAs(TOMBSTONE, stored);
}

/** The store without the removed runs in its list: they are only tombstones. */
export function hideRemoved(store: Store): Store {
  return {
    ...store,
    async listRuns({ limit, ...query } = {}) {
      if ((await store.getMeta(ANY_REMOVED)) === undefined)
        return await store.listRuns(limit === undefined ? query : { ...query, limit });
      const runs = await store.listRuns(query);
      const marks = await Promise.all(runs.map(({ id }) => store.getMeta(tombstoneKey(id))));
      return runs.filter((_, at) => marks[at] === undefined).slice(0, limit);
    },
  };
}

function tombstoneKey(run: string): string {
  return `run.removed.${run}`;
}

export interface RunRemoval {
  readonly run: string;
  readonly state: RunSummary["state"]["kind"];
  readonly checkpoints: number;
  /** What it has in the repository; null without one. */
  readonly remains: RunRemains | null;
  /** Receipts of its side effects, which stay. */
  readonly effects: readonly { readonly kind: string; readonly target: string; readonly receipt: unknown }[];
  /** Why it is not removed without force. */
  readonly reasons: readonly string[];
  /** An earlier removal was interrupted, or nothing is left to remove. */
  readonly begun: boolean;
}

/** Only looks. `forge` is asked whether the run's pull request was merged, because a squash leaves its commits unmerged. */
export async function planRunRemoval(
  adapters: CoreAdapters,
  params: { readonly run: RunSummary; readonly forge: Forge | null },
): Promise<RunRemoval> {
  const { id, state } = params.run;
  const { store, workspaces } = adapters;
  const latest = await store.latest(id).catch(() => undefined);
  const branch = latest?.planes.files?.branch ?? null;
  const remains = (await workspaces?.inspectRun({ run: id, branch: ownedBranch(id, branch) })) ?? null;
  const effects = await store.listEffects(id);
  const begun = (await readRunTombstone(store, id)) !== undefined;
  const forks = (await store.listRuns()).filter(({ forkedFrom }) => forkedFrom?.id.startsWith(`${id}@`) === true);
  return {
    run: id,
    state: state.kind,
    checkpoints: params.run.checkpoints,
    remains,
    effects: effects.flatMap(({ kind, target, state: at }) =>
      at.kind === "done" ? [{ kind, target, receipt: at.receipt }] : [],
    ),
    begun,
    reasons: begun
      ? []
      : [
          ...(isEnded(state) ? [] : ["it has not ended"]),
          ...forks.map((fork) => `${fork.id} was forked from it`),
          ...(await unsavedOf(remains, effects, params.forge)),
        ],
  };
}

/** A run that saves the user's own checkout is on a branch of the user. */
function ownedBranch(run: string, branch: string | null): string | null {
  return branch === `refs/heads/holdfast/${run}` ? branch : null;
}

async function unsavedOf(
  remains: RunRemains | null,
  effects: readonly Effect[],
  forge: Forge | null,
): Promise<readonly string[]> {
  if (remains === null) return [];
  const { losses, branch } = remains;
  const files = losses.files.length;
  const isMerged = losses.commits.length === 0 || branch === null || (await isMergedAt(effects, branch.tip, forge));
  return [
    ...(files === 0 ? [] : [`its worktree has ${files} uncommitted ${files === 1 ? "file" : "files"}`]),
    ...(losses.operation === null ? [] : [`a ${losses.operation} is under way in its worktree`]),
    ...(isMerged ? [] : [`its branch has ${losses.commits.length} unmerged commits`.replace(/\b1 (.*)s$/, "1 $1")]),
  ];
}

/** True if a pull request of the run was merged with all commits of the branch. An unreachable forge proves nothing. */
async function isMergedAt(effects: readonly Effect[], tip: string, forge: Forge | null): Promise<boolean> {
  for (const { state } of forge === null ? [] : effects) {
    const { number, url } = asRecord(state.kind === "done" ? state.receipt : null);
    if (typeof number !== "number" || typeof url !== "string") continue;
    const request: PullRequest | null = (await forge?.getPullRequest(number).catch(() => null)) ?? null;
    if (request?.state === "merged" && request.url === url && request.headCommit === tip) return true;
  }
  return false;
}

/**
 * Records the removal first: from then on no command uses the run, and the same call completes what a kill interrupted.
 * The lease keeps other processes from continuing the run meanwhile. LEASE_HELD if one works on it.
 */
export async function applyRunRemoval(
  adapters: CoreAdapters,
  removal: RunRemoval,
  by: string,
): Promise<{ readonly freedBytes: number }> {
  const { store, workspaces } = adapters;
  const { run, remains } = removal;
  if (remains?.locked === true) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `The worktree of ${run} is locked`,
      hint: `Run \`git worktree unlock ${remains.worktree ?? run}\` first.`,
    });
  }
  await using _held = await acquireLease(adapters, run);
  if (!removal.begun) {
    const tombstone: RunTombstone = { removedAt: new Date(adapters.clock.now()).toISOString(), by };
    await store.setMeta(ANY_REMOVED, "yes");
    await store.setMeta(tombstoneKey(run), JSON.stringify(tombstone));
  }
  await workspaces?.removeRun({ run, branch: remains?.branch ?? null });
  const checkpoints = await Array.fromAsync(allCheckpoints(store, run));
  for (const tag of checkpoints.flatMap(({ tags }) => tags)) await store.untag({ run, name: tag });
  // The store keeps the newest checkpoint of each run: the journal's chain ends in it.
  const newest = Math.max(...checkpoints.map(({ sequence }) => sequence));
  const drops = checkpoints.flatMap(({ sequence }) =>
    sequence === newest ? [] : [{ sequence, why: `run removed by ${by}` }],
  );
  if (drops.length > 0) await store.drop({ run, drops });
  await adapters.logs.remove(run);
  const { freedBytes } = await store.sweep();
  return { freedBytes };
}

/** Throws RUN_NOT_FOUND for a run that was removed. The message says what it had opened. */
export async function refuseRemoved(store: Pick<Store, "getMeta" | "listEffects">, run: string): Promise<void> {
  const tombstone = await readRunTombstone(store, run);
  if (tombstone === undefined) return;
  const urls = (await store.listEffects(run)).flatMap(({ state }) => {
    const { url } = asRecord(state.kind === "done" ? state.receipt : null);
    return typeof url === "string" ? [url] : [];
  });
  const opened = urls.length === 0 ? "" : ` It had opened ${urls.join(", ")}.`;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `Run ${run} was removed on ${tombstone.removedAt} by ${tombstone.by}`,
    hint: `Its id is not used again; \`holdfast list\` shows the runs there are.${opened}`,
    data: { run, ...tombstone, urls },
  });
}
