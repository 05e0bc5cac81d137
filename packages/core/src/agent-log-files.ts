// Agent logs as files in a directory, one folder a run.
import { closeSync, constants, createReadStream, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import type { AgentCallKey, AgentLog, AgentLogFile, AgentLogs, ResultFile } from "./agent-log.ts";
import { sha256 } from "./json.ts";

/**
 * `<directory>/<run>/<stage attempt>-<step>.log` is the log of a call, and the same name with `.answer` holds its result. Both have the
 * mode 0600.
 */
export function createAgentLogFiles(directory: string, maxBytes = MAX_BYTES): AgentLogs {
  return {
    open: (call) => openLog(join(directory, call.run, `${nameOf(call)}.log`), maxBytes),
    result: (call) => openResult(join(directory, call.run, `${nameOf(call)}.answer`)),
    openConsole: (run) => openConsole(join(directory, run)),
    list: (run) => listLogs(join(directory, run)),
    remove: (run) => rm(join(directory, run), { recursive: true, force: true }),
    read: ({ path }, start) => readLines(path, start),
  };
}

function openLog(path: string, maxBytes: number): AgentLog {
  let room = maxBytes;
  let fd: number | null = null;
  let isOpen = true;
  return {
    append(line) {
      if (!isOpen || room <= 0) return;
      try {
        fd ??= openForAppend(path);
        const bytes = Buffer.from(`${line.replaceAll("\n", "\\n")}\n`);
        room -= bytes.length;
        writeSync(fd, room > 0 ? bytes : FULL);
      } catch {
        room = 0;
      }
    },
    close() {
      isOpen = false;
      if (fd !== null) closeSync(fd);
      fd = null;
      return Promise.resolve();
    },
  };
}

function openForAppend(path: string): number {
  makeFolder(dirname(path));
  const flags =
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return openSync(path, flags, 0o600);
}

function openResult(path: string): ResultFile {
  return {
    write(text) {
      try {
        makeFolder(dirname(path));
        writeDurable({ path, data: Buffer.from(text), mode: "replace" });
      } catch {
        // The journal may still receive the result. If it does not, the call runs again, as without this file.
      }
    },
    read() {
      try {
        const file = readRegularFile({ path, maxBytes: MAX_BYTES });
        return file.kind === "read" ? file.bytes.toString("utf8") : null;
      } catch {
        return null;
      }
    },
    remove: () => rmSync(path, { force: true }),
  };
}

/** `0-console.log`, then `0-console-2.log`. */
function openConsole(folder: string): { readonly path: string; readonly fd: number } {
  makeFolder(folder);
  for (let count = 1; ; count += 1) {
    const path = join(folder, `0-console${count === 1 ? "" : `-${count}`}.log`);
    try {
      return { path, fd: openSync(path, "wx", 0o600) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  }
}

function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** Encodes the step name, which a workflow chooses freely. Unsafe bytes become %hex. A long name is cut and gets its digest. */
function nameOf({ stageAttempt, step }: AgentCallKey): string {
  const safe = Array.from(Buffer.from(step), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9_.-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");
  const name = safe.length > MAX_NAME ? `${safe.slice(0, MAX_NAME)}~${sha256(step).slice(0, 12)}` : safe;
  return `${stageAttempt}-${name}`;
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_NAME = 100;
const FULL = Buffer.from("… the log of this call is full; what came after is not in it\n");

async function listLogs(folder: string): Promise<readonly AgentLogFile[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  const files: AgentLogFile[] = [];
  for (const name of names) {
    const [, stageAttempt, step] = /^(\d+)-(.+)\.log$/.exec(name) ?? [];
    if (stageAttempt === undefined || step === undefined) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    files.push({
      path,
      stageAttempt: Number(stageAttempt),
      step: decodeStep(step),
      bytes: found.size,
      modifiedAt: found.mtime.toISOString(),
    });
  }
  return files.toSorted(
    (a, b) => a.stageAttempt - b.stageAttempt || compare(a.modifiedAt, b.modifiedAt) || compare(a.path, b.path),
  );
}

async function readLines(
  path: string,
  start: number,
): Promise<{ readonly lines: readonly string[]; readonly next: number }> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path, { start })) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const end = bytes.lastIndexOf(0x0a) + 1;
  const text = bytes.subarray(0, end).toString("utf8");
  return { lines: text === "" ? [] : text.slice(0, -1).split("\n"), next: start + end };
}

function decodeStep(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
