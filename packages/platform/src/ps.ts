// Facts about processes from `ps`, `lsof` and `sysctl`, for systems without /proc (macOS). Parsers are pure; the readers
// run the program with a time limit and return null if it fails.

import { spawnSync } from "node:child_process";

/** One line of `ps -o pid=,ppid=,pgid=,stat=,lstart=`. */
export interface PsEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Starts with R, S, I, U, T (stopped) or Z (zombie). */
  readonly state: string;
  /** Start of the process in whole seconds, "Tue Sep  8 07:58:23 2026" in UTC and in the C locale. It never changes. */
  readonly started: string;
}

const COLUMNS = "pid=,ppid=,pgid=,stat=,lstart=";
const LINE =
  /^\s*(?<pid>\d+)\s+(?<parent>\d+)\s+(?<group>\d+)\s+(?<state>\S+)\s+(?<started>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*$/;

/** null for a line of another shape: a table that is only half understood must not pass for a whole one. */
export function parsePsTable(text: string): readonly PsEntry[] | null {
  const entries: PsEntry[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const { pid, parent, group, state, started } = LINE.exec(line)?.groups ?? {};
    if (pid === undefined || state === undefined || started === undefined) return null;
    entries.push({ pid: Number(pid), parent: Number(parent), group: Number(group), state, started });
  }
  return entries;
}

/** The named processes, or all. null: `ps` failed or did not answer in time. A process that is gone is left out. */
export function readPs(pids?: readonly number[]): readonly PsEntry[] | null {
  if (pids?.length === 0) return [];
  const text = run("ps", pids === undefined ? ["-axo", COLUMNS] : ["-o", COLUMNS, "-p", pids.join(",")]);
  return text === null ? null : parsePsTable(text);
}

/**
 * The value of a variable in the environment of each process, from `ps axeww -o pid=,command=`. The environment follows
 * the arguments, with blanks between, and nothing marks where it begins. So the value must contain no blank and be random,
 * and the last one in the line counts. The environment of programs that belong to macOS itself is left out.
 */
export function parsePsVariable(text: string, variable: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  for (const line of text.split("\n")) {
    const [, pid, command] = /^\s*(\d+) (.*)$/.exec(line) ?? [];
    if (pid === undefined || command === undefined) continue;
    const at = command.lastIndexOf(` ${variable}=`);
    const value = at === -1 ? "" : (command.slice(at + variable.length + 2).split(" ", 1)[0] ?? "");
    if (value !== "") found.set(Number(pid), Buffer.from(value, "latin1").toString("utf8"));
  }
  return found;
}

/** One map for each variable, from one look. null: `ps` failed or did not answer in time. */
export function readPsVariables(variables: readonly string[]): readonly ReadonlyMap<number, string>[] | null {
  const text = run("ps", ["axeww", "-o", "pid=,command="]);
  return text === null ? null : variables.map((variable) => parsePsVariable(text, variable));
}

/** One line of `ps -o pid=,ppid=,tty=,comm=`. */
export interface PsName {
  readonly pid: number;
  readonly parent: number;
  readonly terminal: boolean;
  readonly name: string;
}

/** null for a line of another shape. */
export function parsePsNames(text: string): readonly PsName[] | null {
  const names: PsName[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const [, pid, parent, terminal, name] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*?)\s*$/.exec(line) ?? [];
    if (pid === undefined || terminal === undefined || name === undefined) return null;
    names.push({ pid: Number(pid), parent: Number(parent), terminal: !/^\?+$|^-$/.test(terminal), name });
  }
  return names;
}

/** null: `ps` failed. A process that is gone is left out. */
export function readPsNames(pids: readonly number[]): readonly PsName[] | null {
  if (pids.length === 0) return [];
  const text = run("ps", ["-o", "pid=,ppid=,tty=,comm=", "-p", pids.join(",")]);
  return text === null ? null : parsePsNames(text);
}

interface ProcessFolder {
  readonly pid: number;
  readonly folder: string;
}

/**
 * The output of `lsof -F pn`: a line `p<pid>` for each process, and `n<path>` for its working directory. lsof writes bytes
 * that the C locale cannot print as `\xNN`, and a backslash as two.
 */
export function parseLsofFolders(text: string): readonly ProcessFolder[] {
  const found: ProcessFolder[] = [];
  let pid = 0;
  for (const line of text.split("\n")) {
    if (line.startsWith("p")) pid = Number(line.slice(1));
    else if (line.startsWith("n/") && pid > 0) found.push({ pid, folder: unescapePath(line.slice(1)) });
  }
  return found;
}

function unescapePath(text: string): string {
  const bytes = text.replaceAll(/\\(?:x([0-9a-f]{2})|([\\tnrbf]))/gi, (_, hex?: string, letter?: string) =>
    hex === undefined ? (ESCAPES[letter ?? ""] ?? "") : String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\", t: "\t", n: "\n", r: "\r", b: "\b", f: "\f" };

/** The working directories of this user's processes. null: `lsof` failed. Without `-a` it would list all files. */
export function readPsFolders(): readonly ProcessFolder[] | null {
  const text = run("lsof", ["-a", "-u", String(process.getuid?.() ?? 0), "-d", "cwd", "-Fpn"], [0, 1]);
  // This process is always listed.
  return text === null || text === "" ? null : parseLsofFolders(text);
}

/** Random for each boot; "" if it cannot be read. kern.boottime would change with every correction of the clock. */
export function readBootSession(): string {
  const text = run("sysctl", ["-n", "kern.bootsessionuuid"])?.trim() ?? "";
  return /^[0-9A-Fa-f-]{36}$/.test(text) ? text : "";
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The locale and the time zone decide how `ps` prints a start time, and LC_ALL overrides every other variable of the
 * locale. A service may have a PATH without the system's own programs. Status 1 with nothing printed means that no
 * process matches.
 */
function run(program: string, args: readonly string[], accepted: readonly number[] = [0]): string | null {
  const path = `${process.env["PATH"] ?? ""}:/usr/bin:/bin:/usr/sbin:/sbin`;
  const { status, stdout } = spawnSync(program, args, {
    env: { ...process.env, PATH: path, LC_ALL: "C", TZ: "UTC0" },
    encoding: "latin1",
    timeout: TIMEOUT_MS,
    killSignal: "SIGKILL",
    maxBuffer: MAX_BYTES,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const isAccepted = status !== null && accepted.includes(status);
  return isAccepted || (status === 1 && stdout === "") ? stdout : null;
}
