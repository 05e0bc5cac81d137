// Records of the processes that a run has started. The watchdog (watchdog-process.ts) writes what it sees of them to the
// store, one file for each Holdfast process. A process that left its parent and its group and shows no mark can still be
// found there, also after the watchdog itself was killed. So can one that a recorded process started later, in its session
// or group.

import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { processIdentity } from "./identity.ts";

/** One process that belongs to `mark`. Its pid and start identify it within one boot. */
export interface RecordedProcess {
  readonly pid: number;
  readonly started: string;
  readonly mark: string;
}

/** The number of a process, group or session that belongs to `mark`. See pid-reuse.ts for what it proves. */
export interface RecordedNumber {
  readonly number: number;
  /** `started` of the PidCount when it was in use. */
  readonly seen: number;
  readonly mark: string;
}

/** Processes whose mark begins with `owner` and a slash are recorded in this directory of the store. */
export function keepProcessRecords(owner: string, directory: string): void {
  directories.set(owner, directory);
}

/** null: nothing keeps records for this mark. */
export function recordDirectory(mark: string): string | null {
  return directories.get(mark.split("/", 1)[0] ?? "") ?? null;
}

const directories = new Map<string, string>();

/**
 * Replaces the record of one supervisor; without processes the file is removed. Nothing is synced: after a power cut no
 * recorded process exists. A kill leaves the old record whole.
 */
export function writeProcessRecord(
  directory: string,
  supervisor: string,
  { processes, numbers }: Omit<ProcessRecord, "boot">,
): void {
  const path = join(directory, `${supervisor}${SUFFIX}`);
  if (processes.length === 0 && numbers.length === 0) return removeRecord(path);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const part = `${path}${PART}`;
  writeFileSync(part, JSON.stringify({ boot: processIdentity().boot, processes, numbers }), { mode: 0o600 });
  renameSync(part, path);
}

/**
 * What all supervisors of this boot recorded. A record of an earlier boot names no process of today. One of another pid
 * namespace names processes that cannot be seen here. Both are left out, and so is what is not a record.
 */
export function readProcessRecords(directory: string): readonly RecordedProcess[] {
  return readRecords(directory).flatMap(({ processes }) => processes);
}

/** Likewise. */
export function readRecordedNumbers(directory: string): readonly RecordedNumber[] {
  return readRecords(directory).flatMap(({ numbers }) => numbers);
}

function readRecords(directory: string): readonly ProcessRecord[] {
  const { boot } = processIdentity();
  if (boot === null) return [];
  return listRecords(directory).flatMap((path) => {
    const record = readRecord(path);
    return record?.boot === boot ? [record] : [];
  });
}

/** Removes the records of this boot that name no live process, group or session, and those of earlier boots. */
export function removeStaleRecords(
  directory: string,
  { isLive, isInUse }: { isLive(process: RecordedProcess): boolean; isInUse(number: RecordedNumber): boolean },
): void {
  const { boot } = processIdentity();
  if (boot === null) return;
  const kernel = (text: string): string => text.split("/", 1)[0] ?? "";
  for (const path of listRecords(directory)) {
    const record = readRecord(path);
    if (record === null) continue;
    const isOld = kernel(record.boot) !== kernel(boot);
    const isStale = !record.processes.some(isLive) && !record.numbers.some(isInUse);
    if (isOld || (record.boot === boot && isStale)) removeRecord(path);
  }
}

const SUFFIX = ".processes.json";
const PART = ".part";

function listRecords(directory: string): readonly string[] {
  try {
    const names = readdirSync(directory).filter((name) => name.endsWith(SUFFIX));
    return names.map((name) => join(directory, name));
  } catch {
    return [];
  }
}

function removeRecord(path: string): void {
  for (const file of [`${path}${PART}`, path]) {
    try {
      rmSync(file, { force: true });
    } catch {
      // The disk fails or is read-only. A stale record names only processes that are gone.
    }
  }
}

interface ProcessRecord {
  readonly boot: string;
  readonly processes: readonly RecordedProcess[];
  readonly numbers: readonly RecordedNumber[];
}

function readRecord(path: string): ProcessRecord | null {
  try {
    const record: Partial<Record<string, unknown>> = JSON.parse(readFileSync(path, "utf8"));
    const { boot, processes, numbers = [] } = record;
    if (typeof boot !== "string" || !Array.isArray(processes) || !Array.isArray(numbers)) return null;
    return { boot, processes: processes.flatMap(parseProcess), numbers: numbers.flatMap(parseNumber) };
  } catch {
    return null;
  }
}

function parseProcess(value: unknown): readonly RecordedProcess[] {
  if (typeof value !== "object" || value === null) return [];
  const { pid, started, mark }: Partial<Record<string, unknown>> = { ...value };
  return isPid(pid) && typeof started === "string" && typeof mark === "string" ? [{ pid, started, mark }] : [];
}

function parseNumber(value: unknown): readonly RecordedNumber[] {
  if (typeof value !== "object" || value === null) return [];
  const { number, seen, mark }: Partial<Record<string, unknown>> = { ...value };
  return isPid(number) && typeof seen === "number" && typeof mark === "string" ? [{ number, seen, mark }] : [];
}

function isPid(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 1;
}
