import { HoldfastError } from "../../core/error.ts";
import type { NewEntry, RunParked } from "../../core/journal/journal.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RunOutcome } from "../outcome.ts";
import type { Parts } from "../parts.ts";

/**
 * A full disk, of the store, of git or of the worktree: work has stopped as after a crash, so nothing is half on record. The run is parked
 * with what needs space and how much is free. Where the entry does not fit, the store's reserve is released for it. Where not
 * even that helps, the error passes, and the run stays as its journal has it. A resume continues once there is room. Any other
 * error is thrown on.
 */
export async function parkOnDisk(parts: Parts, lease: Lease, error: unknown): Promise<RunOutcome> {
  if (!(error instanceof HoldfastError) || error.code !== "DISK_FULL") throw error;
  const reason = await reasonOf(parts, lease.run, error);
  const until = new Date(parts.clock.now() + LOOK_AGAIN_MS).toISOString();
  const body: RunParked = { on: "disk", reason, until };
  const entries: readonly NewEntry[] = [{ kind: "run.parked", body: { ...body } }];
  try {
    await parts.store.commit({ lease, entries }).catch(async (full: unknown) => {
      if (((await parts.store.makeRoom?.()) ?? 0) === 0) throw full;
      return await parts.store.commit({ lease, entries });
    });
  } catch {
    throw new HoldfastError({
      code: "DISK_FULL",
      message: error.message,
      hint: `Nothing that was finished is lost. Free some space, then: \`holdfast resume ${lease.run}\`.`,
      retry: "later",
      data: error.data,
      cause: error,
    });
  }
  return { kind: "parked", on: "disk", reason, until };
}

type Measured = Pick<Parts, "store" | "workspaces" | "freeBytes">;

/** Is there enough space to continue a run that waits for it? Where nothing can be measured, the attempt decides. */
export async function hasRoom(parts: Measured, run: string): Promise<boolean> {
  const tightest = await findTightest(parts, run);
  return tightest === null || tightest.free >= NEEDED_BYTES;
}

/** A save of a usual size, with the database's log and the reserve. */
const NEEDED_BYTES = 8 * 1024 * 1024;
const LOOK_AGAIN_MS = 60_000;

async function reasonOf(parts: Parts, run: string, error: HoldfastError): Promise<string> {
  const { path } = error.data;
  const tightest = await findTightest(parts, run, typeof path === "string" ? path : undefined);
  const what = `The disk is full: ${error.message}`;
  if (tightest === null) return what;
  return `${what}. ${tightest.path} needs at least ${mebibytes(NEEDED_BYTES)}, and ${mebibytes(tightest.free)} are free.`;
}

/** Store, repository, its objects and the worktree may lie on different file systems: the one with the least free space. */
async function findTightest(
  { store, workspaces, freeBytes }: Measured,
  run: string,
  named?: string,
): Promise<{ readonly path: string; readonly free: number } | null> {
  if (freeBytes === undefined) return null;
  const worktree = (await workspaces?.find(run).catch(() => undefined))?.root;
  const repository = workspaces === null ? [] : [workspaces.commonDir, `${workspaces.commonDir}/objects`];
  const paths = [named, worktree, store.location, ...repository].flatMap((path) => path ?? []);
  const measured = await Promise.all(
    paths.map(async (path) => ({ path, free: await freeBytes(path).catch(() => Number.POSITIVE_INFINITY) })),
  );
  const [first] = measured.filter(({ free }) => Number.isFinite(free)).toSorted((one, other) => one.free - other.free);
  return first ?? null;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
