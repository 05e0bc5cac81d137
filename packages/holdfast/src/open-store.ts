/** Finds the store, in a directory or in a PostgreSQL database, and opens it. Refuses to create a new store where an existing one is missing. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { HalfRemovedRun } from "@holdfast/core/adapters";
import { learnSecrets, secretValues } from "@holdfast/core/known-secrets";
import type { LeaseOwner, OwnerLiveness } from "@holdfast/core/lease";
import { type RunWithStatus, hideRemoved, listHalfRemoved, readStatuses } from "@holdfast/core/run-statuses";
import type { RunQuery, Store } from "@holdfast/core/store";
import { ownerLiveness } from "@holdfast/core/store-sql/leases";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import type { Workspaces } from "@holdfast/core/workspace";
import { systemClock } from "@holdfast/platform/clock";
import { type ErrorCode, HoldfastError, describeList } from "@holdfast/platform/error";
import { isSuspended } from "@holdfast/platform/identity";
import { isStoreUrl, resolvePlace, stateDirectory } from "@holdfast/postgres/store-url";
import { isFinishing } from "@holdfast/workflows/built-in";

/** A database that does not answer, and until when calls wait for it, by the clock of this machine. */
export interface DatabaseWait {
  /** Without a password. */
  readonly location: string;
  readonly until: number;
}

interface StoreAccess {
  readonly create?: boolean;
  readonly readOnly?: boolean;
  /** Called when calls wait for a database that has not answered for five seconds: once until it answers. */
  readonly onWait?: ((wait: DatabaseWait) => void) | undefined;
}

interface StorePlace {
  /** A directory, relative to `cwd`, or a postgres:// URL. */
  readonly store?: string;
  readonly cwd?: string;
}

/**
 * The named directory or URL, else HOLDFAST_STORE, else a directory in the repository's git directory. Throws
 * NOT_A_REPOSITORY if none of them exists.
 */
export function storePlace(place: StorePlace, repository: Pick<Workspaces, "commonDir"> | null): string {
  const named = namedPlace(place);
  if (named !== undefined) return named;
  if (repository !== null) return join(repository.commonDir, "holdfast");
  throw new HoldfastError({
    code: "NOT_A_REPOSITORY",
    message: `${resolve(place.cwd ?? ".")} is not inside a git repository, so there is no default store`,
    hint: "Run this inside a repository, or name a store with --store or HOLDFAST_STORE.",
  });
}

/** As `storePlace`, for callers that need nothing else of the repository. Searches it only if no store is named. */
export async function findStorePlace(place: StorePlace): Promise<string> {
  const named = namedPlace(place);
  if (named !== undefined) return named;
  const { findCommonDir } = await import("@holdfast/git/repository");
  const commonDir = await repositoryOrNull(findCommonDir(resolve(place.cwd ?? ".")));
  return storePlace(place, commonDir === null ? null : { commonDir });
}

export async function repositoryOrNull<T>(finding: Promise<T>): Promise<T | null> {
  return await orNull("NOT_A_REPOSITORY", finding);
}

async function orNull<T>(code: ErrorCode, opening: Promise<T>): Promise<T | null> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === code) return null;
    throw error;
  }
}

function namedPlace({ store = process.env["HOLDFAST_STORE"], cwd = "." }: StorePlace): string | undefined {
  if (store === undefined || store === "") return undefined;
  return resolvePlace(cwd, store, "The named store");
}

export interface OpenedStore {
  readonly store: Store;
  /** Where this machine keeps what belongs to the store. Of a store in files, the store itself. */
  readonly directory: string;
  /** Several machines can use it. */
  readonly shared: boolean;
}

/** Where a process that has no store yet announces itself. */
export function pretendedDirectory(place: string): string {
  return isStoreUrl(place) ? stateDirectory("new") : place;
}

/** Opens a directory or a URL. The PostgreSQL driver is loaded only for a URL. */
export async function openStoreAt(place: string, { onWait, ...access }: StoreAccess = {}): Promise<OpenedStore> {
  if (!isStoreUrl(place))
    return {
      store: await openSqliteStore({ directory: place, ...access, clock: systemClock }),
      directory: place,
      shared: false,
    };
  // The password is masked in every text, whatever its source.
  learnSecrets(secretValues({ HOLDFAST_STORE: place }));
  const { openPostgresStore } = await import("@holdfast/postgres/open");
  const store = await openPostgresStore({ url: place, ...access, ...(onWait === undefined ? {} : { onWait }) });
  return { store, directory: stateDirectory(store.id), shared: true };
}

/** The runs of a store, for a command that only lists them. `Holdfast` has the same members. */
export interface RunList {
  readonly store: Store;
  statuses(query?: RunQuery): Promise<readonly RunWithStatus[]>;
  halfRemovedRuns(): Promise<readonly HalfRemovedRun[]>;
  close(): Promise<void>;
}

/**
 * Opens the store for reading, without the repository's worktrees, agents and workflows. null: there is no store; `openHoldfast` reports
 * why.
 */
export async function openRunList(place: StorePlace & Pick<StoreAccess, "onWait">): Promise<RunList | null> {
  const reading = await orNull(
    "STORE_ABSENT",
    openStoreAt(await findStorePlace(place), { create: false, readOnly: true, onWait: place.onWait }),
  );
  if (reading === null) return null;
  const { store: opened } = reading;
  const store = hideRemoved(opened);
  const liveness = (owner: LeaseOwner): OwnerLiveness => ownerLiveness(owner, reading);
  const adapters = { store, clock: systemClock, liveness, suspended: isSuspended };
  return {
    store,
    statuses: async (query = {}) => await readStatuses(adapters, () => store.listRuns(query), isFinishing),
    halfRemovedRuns: async () => await listHalfRemoved(opened),
    close: async () => await store.close(),
  };
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
  place: string,
  access: StoreAccess,
  repository: Pick<Workspaces, "refs" | "list"> | null,
): Promise<OpenedStore> {
  if (repository !== null && !existsSync(place)) {
    const left = await remains(repository);
    if (left.length > 0) throw missing(place, left);
  }
  return await openStoreAt(place, access);
}

async function remains(repository: Pick<Workspaces, "refs" | "list">): Promise<readonly string[]> {
  const [refs, trees] = await Promise.all([repository.refs(), repository.list()]);
  const runs = new Set(refs.map(({ run }) => run));
  for (const { run } of trees) if (run !== null) runs.add(run);
  return [...runs].toSorted();
}

function missing(directory: string, runs: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "STORE_MISSING",
    message: `There is no store in ${directory}, but the repository has snapshots or worktrees of runs (${describeList(runs, 3)}): the store was deleted or moved`,
    hint: `Restore the directory from a backup, or name the store with --store if it was moved. To start again without their history, create the empty directory: \`mkdir ${directory}\`.`,
    // The store may never have been in this directory.
    data: { location: directory, runs, elsewhere: true },
  });
}
