/** Announces a process that prepares a run before it holds the run's lease, so that other commands can find and stop it. */
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { asRecord } from "@holdfast/core/json";
import type { Lease } from "@holdfast/core/lease";
import type { Work } from "@holdfast/core/run";
import { lockDirectory } from "@holdfast/core/store-sql/leases";
import { errorCode } from "@holdfast/platform/error";
import { makeDurableDirectory, removeIfEmpty, writeDurable } from "@holdfast/platform/files";
import { type ProcessIdentity, livenessOf, processIdentity, randomId } from "@holdfast/platform/identity";
import { holdProcessLock, readProcessLock } from "@holdfast/platform/process-lock";

/** A process that prepares a run (it asks the forge, fetches and plans) and does not hold the run's lease yet. */
export interface StartingProcess extends ProcessIdentity {
  /** null: the run id is not known yet. */
  readonly run: string | null;
  readonly workflow: string;
  readonly work: Work;
  readonly since: string;
}

export interface Announcement extends Disposable {
  /** Sets the run id as soon as it is known. */
  name(run: string): void;
  /** Removes the announcement because the process holds the lease or stopped before that. A second call does nothing. */
  remove(): void;
}

/**
 * Writes `starting/<pid>-<random>.json` into the store's directory, so that `status` and `stop` find a run
 * before its record exists. A killed process leaves the file behind: readers ignore it, and the next announcement
 * removes it.
 */
export function announceStart(
  store: string,
  params: Pick<StartingProcess, "workflow" | "work" | "run"> & {
    /** The process that prepares the run; default: this process. */
    readonly pid?: number;
    readonly now: number;
  },
): Announcement | null {
  const directory = join(store, DIRECTORY);
  const { pid, now, ...about } = params;
  // A start that is refused leaves nothing behind, so directories that only the announcement needed go with it.
  const made = [directory, lockDirectory(store), store].filter((path) => !existsSync(path));
  try {
    makeDurableDirectory(directory);
  } catch (error) {
    // Ignored here: the checks before a start report a directory that cannot be written.
    if (["EACCES", "EPERM", "EROFS"].some((code) => code === errorCode(error))) return null;
    throw error;
  }
  for (const { path, starting, lock } of readAll(directory))
    if (starting === null || isDead(store, starting, lock)) rmSync(path, { force: true });
  const identity = processIdentity(pid);
  const name = `${identity.pid}-${randomId()}`;
  const path = join(directory, `${name}.json`);
  // Before the file, and removed after it: only a dead process leaves its file without a held lock.
  const lock = identity.pid === process.pid ? holdProcessLock(lockDirectory(store), name) : null;
  let removed = false;
  const write = (run: string | null): boolean => {
    const starting: StartingProcess = { ...identity, ...about, run, since: new Date(now).toISOString() };
    const data = Buffer.from(JSON.stringify(starting));
    try {
      // Another process that was refused may have removed the directory just now.
      if (!existsSync(directory)) makeDurableDirectory(directory);
      writeDurable({ path, data, mode: "replace" });
      return true;
    } catch (error) {
      // Ignored here: the store reports a full disk, together with what needs space.
      if (error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT"))
        return false;
      throw error;
    }
  };
  const remove = (): void => {
    if (removed) return;
    removed = true;
    rmSync(path, { force: true });
    lock?.release();
    made.forEach(removeIfEmpty);
  };
  if (!write(params.run)) {
    lock?.release();
    return null;
  }
  return {
    name: (run) => {
      if (!removed && run !== params.run) write(run);
    },
    remove,
    [Symbol.dispose]: remove,
  };
}

/**
 * Lists the processes of this host that do not hold their run's lease yet. Processes of other hosts cannot be checked
 * and are left out. Changes nothing.
 */
export function listStartingProcesses(store: string, leases: readonly Lease[]): readonly StartingProcess[] {
  const { host, boot } = processIdentity();
  const waiting = readAll(join(store, DIRECTORY)).flatMap(({ starting, lock }) => {
    if (starting === null || starting.boot !== boot || isDead(store, starting, lock)) return [];
    if (boot === null && starting.host !== host) return [];
    const isLeased = leases.some(
      ({ run, owner }) => run === starting.run && owner.pid === starting.pid && owner.boot === starting.boot,
    );
    return isLeased ? [] : [starting];
  });
  // The parent announces a detached process first; later the process announces itself. Both entries have the same pid.
  return [
    ...new Map(waiting.map((starting) => [`${starting.pid} ${JSON.stringify(starting.work)}`, starting])).values(),
  ];
}

const DIRECTORY = "starting";

function isDead(store: string, starting: StartingProcess, lock: string): boolean {
  return livenessOf(starting, processIdentity(), readProcessLock(lockDirectory(store), lock)) === "dead";
}

interface StartingFile {
  readonly path: string;
  /** null if the file cannot be read. Files are written atomically, so such a file is damaged and useless. */
  readonly starting: StartingProcess | null;
  /** Name of the process's lock file. There is none if another process announced it. */
  readonly lock: string;
}

function readAll(directory: string): readonly StartingFile[] {
  let names: readonly string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    // ENOTDIR: the store's path names a file.
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) return [];
    throw error;
  }
  return names
    .filter((name) => /^\d+-[0-9a-f]+\.json$/.test(name))
    .flatMap((name) => {
      const path = join(directory, name);
      try {
        return [{ path, starting: parse(readFileSync(path, "utf8")), lock: basename(name, ".json") }];
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
        throw error;
      }
    });
}

function parse(text: string): StartingProcess | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const { host, pid, started, boot, run, workflow, work, since } = asRecord(value);
  if (typeof host !== "string" || typeof pid !== "number" || typeof workflow !== "string") return null;
  if (typeof since !== "string" || !Number.isFinite(Date.parse(since))) return null;
  return {
    host,
    pid,
    started: typeof started === "string" ? started : null,
    boot: typeof boot === "string" ? boot : null,
    run: typeof run === "string" ? run : null,
    workflow,
    work: parseWork(work),
    since,
  };
}

function parseWork(value: unknown): Work {
  const { kind, number, text } = asRecord(value);
  if (kind === "issue" && typeof number === "number") return { kind, number };
  return kind === "task" && typeof text === "string" ? { kind, text } : { kind: "none" };
}
