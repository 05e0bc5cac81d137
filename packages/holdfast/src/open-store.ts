/** Finds the directory of the store and opens it. Refuses to create a new store where an existing one is missing. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Store } from "@holdfast/core/store";
import type { Workspaces } from "@holdfast/core/workspace";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { openSqliteStore } from "@holdfast/core/store-sql/open";

interface StorePlace {
  /** A directory, relative to `cwd`. */
  readonly store?: string;
  readonly cwd?: string;
}

/**
 * The named directory, else HOLDFAST_STORE, else a directory in the repository's git directory. Throws NOT_A_REPOSITORY
 * if none of them exists.
 */
export function storeDirectory(place: StorePlace, repository: Pick<Workspaces, "commonDir"> | null): string {
  const named = namedDirectory(place);
  if (named !== undefined) return named;
  if (repository !== null) return join(repository.commonDir, "holdfast");
  throw new HoldfastError({
    code: "NOT_A_REPOSITORY",
    message: `${resolve(place.cwd ?? ".")} is not inside a git repository, so there is no default store`,
    hint: "Run this inside a repository, or name a directory with --store or HOLDFAST_STORE.",
  });
}

/** As `storeDirectory`, for callers that need nothing else of the repository. Runs git only if no directory is named. */
export async function findStoreDirectory(place: StorePlace): Promise<string> {
  const named = namedDirectory(place);
  if (named !== undefined) return named;
  const { openGitWorkspaces } = await import("@holdfast/git/workspaces");
  const repository = await repositoryOrNull(openGitWorkspaces(resolve(place.cwd ?? ".")));
  try {
    return storeDirectory(place, repository);
  } finally {
    await repository?.close();
  }
}

export async function repositoryOrNull(opening: Promise<Workspaces>): Promise<Workspaces | null> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY") return null;
    throw error;
  }
}

function namedDirectory({ store = process.env["HOLDFAST_STORE"], cwd = "." }: StorePlace): string | undefined {
  return store === undefined || store === "" ? undefined : resolve(cwd, store);
}

/**
 * Opens the store, and throws if the directory is missing although the repository still has snapshots or worktrees of
 * runs. A deleted directory takes its marker with it, and a new store would not know these runs. So no store is created
 * silently, and readers are not shown an empty one. An existing empty directory is the user's permission to create the
 * store.
 * `repository`: the repository whose own store this is; null: the store is elsewhere and the repository holds no trace
 * of it.
 */
export async function openOwnStore(
  directory: string,
  access: { readonly create: boolean; readonly readOnly: boolean },
  repository: Pick<Workspaces, "refs" | "list"> | null,
): Promise<Store> {
  if (repository !== null && !existsSync(directory)) {
    const left = await remains(repository);
    if (left.length > 0) throw missing(directory, left);
  }
  return await openSqliteStore({ directory, ...access, clock: systemClock });
}

async function remains(repository: Pick<Workspaces, "refs" | "list">): Promise<readonly string[]> {
  const [refs, trees] = await Promise.all([repository.refs(), repository.list()]);
  const runs = new Set(refs.map(({ run }) => run));
  for (const { run } of trees) if (run !== null) runs.add(run);
  return [...runs].toSorted();
}

function missing(directory: string, runs: readonly string[]): HoldfastError {
  const named = runs.length > 3 ? `${runs.slice(0, 3).join(", ")} and ${runs.length - 3} more` : runs.join(", ");
  return new HoldfastError({
    code: "STORE_MISSING",
    message: `There is no store in ${directory}, but the repository has snapshots or worktrees of runs (${named}): the store was deleted or moved`,
    hint: `Restore the directory from a backup, or name the store with --store if it was moved. To start again without their history, create the empty directory: \`mkdir ${directory}\`.`,
    // The store may never have been in this directory.
    data: { location: directory, runs, elsewhere: true },
  });
}
