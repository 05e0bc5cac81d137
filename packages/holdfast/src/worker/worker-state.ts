/**
 * The worker's files in the user's state directory: the repositories that it looks after, its attempts, and a lock that
 * shows whether a worker is alive. Everything else is in the stores of the repositories.
 */
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { asRecords } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, removeDurable, removeIfEmpty, xdgHome } from "@holdfast/platform/files";
import { randomId } from "@holdfast/platform/identity";
import {
  type ProcessLock,
  holdProcessLock,
  listProcessLocks,
  readProcessLock,
  sweepProcessLocks,
} from "@holdfast/platform/process-lock";
import { type Env, fileName, listStateFiles, readStateFile, writeStateFile } from "../repository-registry.ts";
import type { Attempt } from "./plan-work.ts";

/** A repository that the worker looks after. */
export interface WorkerRepository {
  /** Root of its main worktree. */
  readonly root: string;
  /** The store that the user named when the repository was added; null: the config or the default decides. */
  readonly store: string | null;
}

/** "joined": it executes submitted runs of the whole list. "own": it continues the others. */
export type WorkerKind = "own" | "joined";

export interface WorkerState {
  readonly directory: string;
  repositories(): readonly WorkerRepository[];
  /** The store that was named for a repository of the list; null if none was. */
  storeOf(root: string): string | null;
  /** Adds or replaces a repository. Returns whether that changed the list. */
  add(repository: WorkerRepository): boolean;
  /** Returns whether the repository was in the list. */
  remove(root: string): boolean;
  history(): ReadonlyMap<string, Attempt>;
  saveHistory(history: ReadonlyMap<string, Attempt>): void;
  /** The flags of `holdfast worker` in the service's file. */
  serviceFlags(): readonly string[];
  saveServiceFlags(flags: readonly string[]): void;
  /** Throws LEASE_HELD if another worker of this user and kind is alive. */
  lock(kind: WorkerKind): ProcessLock;
  /** The pid of the live worker; null: there is none. */
  worker(kind: WorkerKind): number | null;
  /** Removes all files of the worker. Returns whether there were any. */
  clear(): boolean;
}

export function openWorkerState(env: Env): WorkerState {
  const directory = join(xdgHome(env, "XDG_STATE_HOME"), "holdfast/worker");
  const [list, historyPath, flagsPath] = [
    join(directory, "repositories"),
    join(directory, "history.json"),
    join(directory, "service.json"),
  ];
  const locksOf = { own: join(directory, "alive"), joined: join(directory, "joined") };
  const fileOf = (root: string): string => join(list, fileName(root));
  const listed = (): readonly string[] => listStateFiles(list);
  const live = (locks: string): readonly string[] =>
    listProcessLocks(locks).filter((name) => readProcessLock(locks, name) === "held");
  const state: WorkerState = {
    directory,
    repositories: () =>
      listed()
        .flatMap((path) => parseRepository(read(path)))
        .toSorted((a, b) => (a.root < b.root ? -1 : 1)),
    storeOf: (root) => state.repositories().find((one) => one.root === root)?.store ?? null,
    add(repository) {
      const same = state.repositories().find(({ root }) => root === repository.root);
      if (same !== undefined && same.store === repository.store) return false;
      writeStateFile(fileOf(repository.root), repository);
      return true;
    },
    remove(root) {
      const path = fileOf(root);
      if (!existsSync(path)) return false;
      removeDurable(path);
      return true;
    },
    history: () => parseHistory(read(historyPath)),
    saveHistory(history) {
      // A worker that never started a run leaves no file.
      if (history.size === 0 && !existsSync(historyPath)) return;
      writeStateFile(historyPath, { attempts: [...history].map(([key, attempt]) => ({ key, ...attempt })) });
    },
    serviceFlags: () => parseFlags(read(flagsPath)),
    saveServiceFlags(flags) {
      if (flags.join("\n") !== state.serviceFlags().join("\n")) writeStateFile(flagsPath, { flags });
    },
    lock(kind) {
      const locks = locksOf[kind];
      // A worker that had nothing to do leaves nothing behind.
      const made = [locks, directory, dirname(directory), dirname(dirname(directory))].filter(
        (path) => !existsSync(path),
      );
      makeDurableDirectory(directory);
      sweepProcessLocks(locks, listProcessLocks(locks));
      const name = `${process.pid.toString(16)}-${randomId()}`;
      const held = holdProcessLock(locks, name);
      const release = (): void => {
        held?.release();
        made.forEach(removeIfEmpty);
      };
      const other = live(locks).find((one) => one !== name);
      if (other === undefined) return { release, [Symbol.dispose]: release };
      release();
      throw new HoldfastError({
        code: "LEASE_HELD",
        message: `A worker runs already (pid ${pidOf(other)})`,
        hint: "`holdfast service status` shows what it does.",
        retry: "later",
        data: { pid: pidOf(other) },
      });
    },
    worker(kind) {
      const [name] = live(locksOf[kind]);
      return name === undefined ? null : pidOf(name);
    },
    clear() {
      const found = existsSync(directory);
      if (!found) return false;
      for (const path of [...listed(), historyPath, flagsPath]) if (existsSync(path)) removeDurable(path);
      removeIfEmpty(list);
      for (const locks of Object.values(locksOf)) {
        sweepProcessLocks(locks, listProcessLocks(locks));
        removeIfEmpty(locks);
      }
      removeIfEmpty(directory);
      removeIfEmpty(dirname(directory));
      return true;
    },
  };
  return state;
}

function pidOf(name: string): number {
  return Number.parseInt(name.split("-")[0] ?? "", 16);
}

function read(path: string): Readonly<Record<string, unknown>> {
  return readStateFile(path, "Remove it, then add each repository again with `holdfast service install`.");
}

function parseRepository({ root, store }: Readonly<Record<string, unknown>>): readonly WorkerRepository[] {
  return typeof root === "string" && isAbsolute(root)
    ? [{ root, store: typeof store === "string" && store !== "" ? store : null }]
    : [];
}

function parseFlags({ flags }: Readonly<Record<string, unknown>>): readonly string[] {
  return Array.isArray(flags) ? flags.filter((one) => typeof one === "string") : [];
}

function parseHistory({ attempts }: Readonly<Record<string, unknown>>): ReadonlyMap<string, Attempt> {
  return new Map(
    asRecords(attempts).flatMap(({ key, failures, startedAt, endedAt, entries }) =>
      typeof key === "string" && typeof failures === "number" && isTime(startedAt)
        ? [
            [
              key,
              {
                failures,
                startedAt,
                endedAt: isTime(endedAt) ? endedAt : null,
                entries: typeof entries === "number" ? entries : null,
              },
            ] as const,
          ]
        : [],
    ),
  );
}

function isTime(value: unknown): value is string {
  return typeof value === "string" && Number.isFinite(Date.parse(value));
}
