import { closeSync, fsyncSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeDurableDirectory, writeDurable } from "../../system/durable-file.ts";
import { randomId } from "../../system/ids.ts";
import { damagedFile, readForgeFile } from "./forge-file.ts";
import type { ForgePlace } from "./forge-place.ts";

/** One change to the forge: one file and one line in its log, both or neither, whatever dies in between. Only under the lock. */
export interface ForgeChange {
  /** Below the forge's folder. */
  readonly path: string;
  readonly text: string;
  /** "create": only where nothing is; a person may be writing the same number by hand. */
  readonly mode: "create" | "replace";
  readonly what: ChangeName;
  readonly number: number | null;
  /** Of the effect that asked for it; null when there was none. */
  readonly key: string | null;
}

export type ChangeName =
  | "issue_created"
  | "issue_closed"
  | "labels_set"
  | "comment_created"
  | "pull_created"
  | "pull_updated"
  | "pull_merged"
  | "checks_recorded";

/** False: something else is at that path now, and nothing was changed. */
export function applyChange(place: ForgePlace, change: ForgeChange): boolean {
  const { path, text, mode, ...what } = change;
  const line = JSON.stringify({ id: randomId(), at: new Date(place.clock.now()).toISOString(), ...what });
  const data = Buffer.from(`${JSON.stringify({ version: 1, path, text, mode, line })}\n`);
  writeDurable({ path: join(place.directory, PENDING), data, mode: "replace" });
  return finishChange(place);
}

/** Does what a change that was written down asks for. Again is the same: the file is whole text, the line has an id. */
export function finishChange(place: ForgePlace): boolean {
  const pending = readPending(place);
  if (pending === undefined) return true;
  const path = join(place.directory, pending.path);
  makeDurableDirectory(dirname(path), 0o755);
  const done = placeFile(place, pending);
  if (done) appendLine(place, pending.line);
  rmSync(join(place.directory, PENDING));
  return done;
}

function placeFile(place: ForgePlace, { path, text, mode }: Pending): boolean {
  try {
    writeDurable({ path: join(place.directory, path), data: Buffer.from(text), mode });
    return true;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  return readForgeFile(place, path)?.text === text;
}

/** Every change so far, oldest first: what, when, and for which key. */
function readLog(place: Pick<ForgePlace, "directory">): readonly string[] {
  const text = readForgeFile(place, LOG)?.text ?? "";
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .slice(0, -1);
}

const PENDING = "pending.json";
const LOG = "log.jsonl";

interface Pending {
  readonly path: string;
  readonly text: string;
  readonly mode: "create" | "replace";
  readonly line: string;
}

function readPending(place: ForgePlace): Pending | undefined {
  const file = readForgeFile(place, PENDING);
  if (file === undefined) return undefined;
  try {
    const { path, text, line, mode }: Partial<Record<string, unknown>> = JSON.parse(file.text);
    const isPlain = typeof path === "string" && typeof text === "string" && typeof line === "string";
    if (isPlain && !path.includes("..") && (mode === "create" || mode === "replace")) return { path, text, mode, line };
  } catch {
    // Told below.
  }
  throw damagedFile(place, PENDING, "it does not hold a change");
}

/** A line that a power cut tore is taken away first: nobody was told of it. */
function appendLine(place: ForgePlace, line: string): void {
  const whole = readLog(place);
  if (whole.includes(line)) return;
  const fd = openSync(join(place.directory, LOG), "a");
  try {
    ftruncateSync(
      fd,
      whole.reduce((size, text) => size + Buffer.byteLength(text) + 1, 0),
    );
    writeSync(fd, `${line}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
