/** Finds the runs that made a commit or a pull request. */
import type { CoreAdapters } from "@holdfast/core/adapters";
import { asRecord } from "@holdfast/core/json";
import { checkArgument } from "@holdfast/core/options";
import { type RunSummary, runTrailersOf } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";

export type FindTarget =
  | { readonly kind: "commit"; readonly name: string }
  | { readonly kind: "pull_request"; readonly number: number; readonly url: string | null };

/**
 * How a run is connected with what was asked. "receipt": an effect of the run produced it. "journal": a step of the run
 * returned it. "pin": the run keeps the commit. "trailer": the commit message names the run, which anybody can write.
 */
export type FoundBy = "receipt" | "journal" | "pin" | "trailer";

export interface FoundRun {
  readonly id: string;
  /** null: the commit names the run, and this store does not have it. */
  readonly run: RunSummary | null;
  readonly by: readonly FoundBy[];
  /** The run's own record proves it. Otherwise only the commit says so, or another branch has the commit as well. */
  readonly confirmed: boolean;
}

export interface FoundRuns {
  readonly target: FindTarget;
  /** Full id; null for a pull request. */
  readonly commit: string | null;
  /** Confirmed ones first. */
  readonly runs: readonly FoundRun[];
}

/** `#12`, `!12`, `12` and the address of a pull request name a pull request; everything else names a commit. */
export function parseFindTarget(text: string): FindTarget {
  checkArgument("parseFindTarget()", "the text", text, "text");
  const number = /^[#!]?([1-9]\d{0,14})$/.exec(text)?.[1];
  if (number !== undefined) return { kind: "pull_request", number: Number(number), url: null };
  const url = /^https?:\/\/.+\/(?:pull|pulls|merge_requests)\/([1-9]\d{0,14})(?=$|[/?#])/.exec(text);
  if (url?.[1] !== undefined) return { kind: "pull_request", number: Number(url[1]), url: url[0] };
  return { kind: "commit", name: text };
}

export async function findRuns(adapters: CoreAdapters, target: FindTarget): Promise<FoundRuns> {
  if (target.kind === "pull_request") {
    const opened = await runsByReceipt(adapters, (receipt) => isPullRequest(receipt, target));
    const runs = opened.map((run) => ({ id: run.id, run, by: ["receipt"] as const, confirmed: true }));
    return { target, commit: null, runs };
  }
  return await findCommit(adapters, target);
}

async function findCommit(
  adapters: CoreAdapters,
  target: Extract<FindTarget, { readonly kind: "commit" }>,
): Promise<FoundRuns> {
  const described = await adapters.workspaces?.describeCommit(target.name);
  if (described === undefined || described === null) {
    throw new HoldfastError({
      code: "RUN_NOT_FOUND",
      message: `There is no commit ${JSON.stringify(target.name)} in this repository`,
      hint: "Give a commit, a branch or a tag of this repository, or #12 for a pull request. `git fetch` brings commits that only the remote has.",
    });
  }
  const { commit } = described;
  const found = new Map<string, { run: RunSummary | null; by: FoundBy[]; confirmed: boolean }>();
  const add = async (id: string, by: FoundBy, confirmed: boolean): Promise<void> => {
    const known = found.get(id) ?? { run: (await adapters.store.getRun(id)) ?? null, by: [], confirmed: false };
    found.set(id, { ...known, by: [...known.by, by], confirmed: known.confirmed || confirmed });
  };
  for (const run of await runsByReceipt(adapters, (receipt) => asRecord(receipt)["commit"] === commit))
    await add(run.id, "receipt", true);
  for (const id of described.heldBy) {
    const branch = (await adapters.store.latest(id).catch(() => undefined))?.planes.files?.branch ?? null;
    const name = branch?.replace(/^refs\/heads\//, "") ?? null;
    const isOwn = described.branches.every((ref) => name !== null && ref.endsWith(`/${name}`));
    await add(id, "pin", isOwn);
  }
  for (const id of runTrailersOf(described.message)) await add(id, "trailer", false);
  for (const [id, { run }] of found)
    if (run !== null && (await isInJournal(adapters, id, commit))) await add(id, "journal", true);
  const runs = [...found]
    .map(([id, one]) => ({ id, ...one }))
    .toSorted((a, b) => Number(b.confirmed) - Number(a.confirmed));
  return { target, commit, runs };
}

async function runsByReceipt(
  { store }: CoreAdapters,
  matches: (receipt: unknown) => boolean,
): Promise<readonly RunSummary[]> {
  const found: RunSummary[] = [];
  for (const run of await store.listRuns()) {
    const effects = await store.listEffects(run.id);
    if (effects.some(({ state }) => state.kind === "done" && matches(state.receipt))) found.push(run);
  }
  return found;
}

function isPullRequest(receipt: unknown, target: Extract<FindTarget, { readonly kind: "pull_request" }>): boolean {
  const { number, url } = asRecord(receipt);
  return number === target.number && typeof url === "string" && (target.url === null || url === target.url);
}

async function isInJournal({ store }: CoreAdapters, run: string, commit: string): Promise<boolean> {
  for await (const entry of store.readJournal({ run }))
    if (entry.kind === "step.finished" && JSON.stringify(entry.body).includes(commit)) return true;
  return false;
}
