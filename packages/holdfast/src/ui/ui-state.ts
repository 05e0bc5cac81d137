/**
 * The file that says where the page server of this user listens, and a lock that shows whether it is alive. Commands read it to print
 * addresses, and a second `holdfast ui` to open the first one.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, removeDurable, xdgHome } from "@holdfast/platform/files";
import { randomId } from "@holdfast/platform/identity";
import { holdProcessLock, listProcessLocks, readProcessLock, sweepProcessLocks } from "@holdfast/platform/process-lock";
import { type Env, listRepositories, readStateFile, writeStateFile } from "../repository-registry.ts";

/** Where a live page server listens. */
export interface PageServer {
  /** Without a path: `http://127.0.0.1:4680`. */
  readonly origin: string;
  readonly pid: number;
  /** Lets a process of this user ask for a code for a browser. Never printed. */
  readonly secret: string;
  readonly readOnly: boolean;
  /** Store that it is limited to; null: it shows all repositories. */
  readonly only: string | null;
}

function placesOf(env: Env): { readonly directory: string; readonly file: string; readonly locks: string } {
  const directory = join(xdgHome(env, "XDG_STATE_HOME"), "holdfast/ui");
  return { directory, file: join(directory, "server.json"), locks: join(directory, "alive") };
}

const HINT = "Remove it, and run `holdfast ui` again.";

/** The live server of this user; null: there is none. A file that a killed server left is ignored. Reads two small files. */
export function findPageServer(env: Env): PageServer | null {
  const { file, locks } = placesOf(env);
  if (!existsSync(file)) return null;
  try {
    const { origin, pid, secret, readOnly, only, lock } = readStateFile(file, HINT);
    if (typeof origin !== "string" || typeof pid !== "number" || typeof secret !== "string") return null;
    if (typeof lock !== "string" || readProcessLock(locks, lock) !== "held") return null;
    return { origin, pid, secret, readOnly: readOnly === true, only: typeof only === "string" ? only : null };
  } catch {
    return null;
  }
}

/** Announces a server until it is disposed of. LEASE_HELD if another one was announced at the same moment. */
export function announcePageServer(env: Env, server: PageServer): Disposable {
  const { directory, file, locks } = placesOf(env);
  makeDurableDirectory(directory);
  sweepProcessLocks(locks, listProcessLocks(locks));
  const name = `${process.pid.toString(16)}-${randomId()}`;
  const held = holdProcessLock(locks, name);
  const other = listProcessLocks(locks).find((one) => one !== name && readProcessLock(locks, one) === "held");
  if (other !== undefined) {
    held?.release();
    throw new HoldfastError({
      code: "LEASE_HELD",
      message: `A page server runs already (pid ${Number.parseInt(other.split("-")[0] ?? "", 16)})`,
      hint: "Run `holdfast ui` again: it opens that one.",
      retry: "later",
    });
  }
  writeStateFile(file, { ...server, lock: name });
  return {
    [Symbol.dispose]() {
      try {
        removeDurable(file);
      } catch {
        // It is ignored without its lock.
      }
      held?.release();
    },
  };
}

/** The address of a page, as a line and as a member of a JSON document. Both are empty without a server. Never has a secret. */
export interface PageLink {
  readonly text: string;
  readonly json: { readonly page?: string };
}

export const NO_LINK: PageLink = { text: "", json: {} };

/** The page about what a command did, if a server runs. Usually none does, which costs one look at a file. */
export function pageLink(env: Env, store: string, pathOf: (repository: string) => string): PageLink {
  const server = findPageServer(env);
  if (server === null || (server.only !== null && server.only !== store)) return NO_LINK;
  const key = listRepositories(env, Date.now()).find((one) => one.store === store)?.key;
  if (key === undefined) return NO_LINK;
  const page = `${server.origin}${pathOf(key)}`;
  return { text: `Page: ${page}`, json: { page } };
}

export function runPath(run: string): (repository: string) => string {
  return (repository) => `/r/${encodeURIComponent(repository)}/${run}`;
}
