// Processes whose working directory is inside a folder. That is the last trace of a process that nothing else ties to a
// run. A user's shell, editor or server may be there as well, so these processes are reported and never ended.

import { readdirSync, readlinkSync, statSync } from "node:fs";
import { basename } from "node:path";
import { isInside, realPath } from "./files.ts";
import { readProcStat } from "./identity.ts";
import { type PsName, readPsFolders, readPsNames } from "./ps.ts";

export interface FolderProcess {
  readonly pid: number;
  readonly parent: number;
  /** Name of its program, without arguments: they may contain secrets. */
  readonly name: string;
  /** It belongs to a terminal: a user started it by hand. */
  readonly terminal: boolean;
  /** The process that started it has ended. */
  readonly orphan: boolean;
}

/** Those of this user. null: the system does not report them. */
export function readFolderProcesses(folder: string): readonly FolderProcess[] | null {
  const root = realPath(folder);
  if (root === null) return [];
  const found = process.platform === "darwin" ? readWithLsof(root) : readWithProc(root);
  return found === null ? null : judgeFolderProcesses(found.inside, found.parents);
}

/** An orphan's parent is the first process of the system, or one that takes its place for a session. */
export function judgeFolderProcesses(
  inside: readonly PsName[],
  parents: ReadonlyMap<number, string>,
): readonly FolderProcess[] {
  return inside.map(({ pid, parent, terminal, name }) => ({
    pid,
    parent,
    name: plainName(name),
    terminal,
    orphan: parent === 1 || REAPERS.test(parents.get(parent) ?? ""),
  }));
}

/** `systemd --user`, and the processes of WSL. */
const REAPERS = /^(?:systemd|init|Relay\(\d+\)|SessionLeader)$/;
const NAME_CHARACTERS = 40;

/** The name comes from another program, and must not control the terminal. */
function plainName(name: string): string {
  const plain = basename(name)
    .replaceAll(/[^\w.+@ -]/g, "?")
    .trim();
  return plain.slice(0, NAME_CHARACTERS) || "?";
}

interface Found {
  readonly inside: readonly PsName[];
  readonly parents: ReadonlyMap<number, string>;
}

function readWithLsof(root: string): Found | null {
  const folders = readPsFolders();
  const pids = folders?.filter(({ folder }) => isInside(folder, root)).map(({ pid }) => pid);
  const inside = pids === undefined ? null : readPsNames(pids);
  return inside === null ? null : { inside, parents: new Map() };
}

function readWithProc(root: string): Found | null {
  const inside: PsName[] = [];
  try {
    for (const entry of readdirSync("/proc")) {
      const pid = /^\d+$/.test(entry) ? Number(entry) : 0;
      const found = pid > 0 && isOwn(pid) && isInside(cwdOf(pid), root) ? readName(pid) : null;
      if (found !== null) inside.push(found);
    }
  } catch {
    return null;
  }
  // An empty table is no table: this process is always in it.
  if (readName(process.pid) === null) return null;
  return { inside, parents: new Map(inside.map(({ parent }) => [parent, readName(parent)?.name ?? ""])) };
}

function isOwn(pid: number): boolean {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === process.getuid?.();
}

/** "" for a process that is gone or of another user. The folder of a process may have been deleted: " (deleted)". */
function cwdOf(pid: number): string {
  try {
    const path = readlinkSync(`/proc/${pid}/cwd`);
    return path.endsWith(" (deleted)") ? "" : path;
  } catch {
    return "";
  }
}

/** null: it is gone, or a zombie. */
function readName(pid: number): PsName | null {
  const { name = "", fields = [] } = readProcStat(pid) ?? {};
  const [state = "X", parent, , , terminal] = fields;
  return state === "Z" || state === "X" ? null : { pid, parent: Number(parent), terminal: terminal !== "0", name };
}
