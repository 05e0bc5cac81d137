import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../core/error.ts";
import type { Shape } from "../../core/shape.ts";
import { count, list, nullable, object, oneOf, optional, tagged, text } from "../../core/shape.ts";
import { writeDurable } from "../../system/durable-file.ts";
import { randomId } from "../../system/ids.ts";
import { livenessOf, processIdentity, type ProcessIdentity } from "../../system/process-identity.ts";
import { readRegularFile } from "../../system/regular-file.ts";

/** Work that git does in the user's git directory and cannot finish when it is killed. */
export type GitWork =
  | {
      readonly kind: "making";
      /** Whose: a run's id, or with an aside's key behind it. */
      readonly run: string;
      readonly path: string;
      readonly branch: string;
      /** The commit that it is to stand on where it stands on no branch. */
      readonly detached?: string;
    }
  | { readonly kind: "unpinning"; readonly refs: readonly string[] };

/** Written before git starts and removed when it is done: one whose writer is dead tells what may be left, and that it is ours. */
export interface WorkNote {
  readonly file: string;
  /** In the environment of every git that does this work. */
  readonly mark: string;
  readonly writtenAt: number;
  readonly work: GitWork;
}

/**
 * Writes the note of this work, on the disk before it returns. Two of one kind and run at a time are refused (WORKSPACE_BUSY)
 * after a moment. `left` are the notes of those who died in the same work: nobody else will touch what they left.
 */
export async function takeNote(
  home: string,
  work: GitWork,
): Promise<{ readonly own: WorkNote; readonly left: readonly WorkNote[] }> {
  for (let attempt = 1; ; attempt++) {
    const own = writeNote(home, work);
    const others = (await readNotes(home)).filter((note) => note.file !== own.file && sameWork(note.work, work));
    const busy = others.find((note) => !note.abandoned);
    if (busy === undefined) return { own, left: others };
    await removeNote(own);
    if (attempt === ATTEMPTS) throw workBusy(busy);
    // Two who came at once each saw the other: the next time they do not come at once.
    await sleep(PAUSE_MS * (1 + Math.random()));
  }
}

/** One that cannot be removed costs the next one a look: no reason to fail. */
export async function removeNote(note: WorkNote): Promise<void> {
  active.delete(note.mark);
  await rm(note.file, { force: true }).catch(() => undefined);
}

/** Keeps the note on the disk for whoever comes next. */
export function abandonNote(note: WorkNote): void {
  active.delete(note.mark);
}

/** A note whose writer cannot be told dead (another host, another container) counts as abandoned after an hour. */
export async function readNotes(home: string): Promise<readonly (WorkNote & { readonly abandoned: boolean })[]> {
  const names = (await readdir(home).catch(() => [])).filter((name) => NAME.test(name));
  const notes = await Promise.all(names.map((name) => readNote(join(home, name))));
  return notes.flatMap((note) => note ?? []);
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;
const STALE_MS = 3_600_000;
const MAX_BYTES = 64 * 1024 * 1024;
const NAME = /^work-([0-9a-f]{32})$/;

/** Marks of the work that this process does now: the system cannot tell it from what this process gave up. */
const active = new Set<string>();

interface Written {
  readonly work: GitWork;
  readonly owner: ProcessIdentity;
}

const WRITTEN: Shape<Written> = object<Written>({
  work: tagged<GitWork, "kind">("kind", {
    making: object({ kind: oneOf({ making: true }), run: text, path: text, branch: text, detached: optional(text) }),
    unpinning: object({ kind: oneOf({ unpinning: true }), refs: list(text) }),
  }),
  owner: object<ProcessIdentity>({ host: text, pid: count, started: nullable(text), boot: nullable(text) }),
});

function writeNote(home: string, work: GitWork): WorkNote {
  const mark = randomId();
  const file = join(home, `work-${mark}`);
  const written: Written = { work, owner: processIdentity() };
  active.add(mark);
  try {
    writeDurable({ path: file, data: Buffer.from(`${JSON.stringify(written)}\n`), mode: "create" });
  } catch (error) {
    active.delete(mark);
    throw error;
  }
  return { file, mark, work, writtenAt: Date.now() };
}

async function readNote(file: string): Promise<(WorkNote & { readonly abandoned: boolean }) | undefined> {
  const found = await stat(file).catch(() => undefined);
  const written = found === undefined ? undefined : parseNote(file);
  const mark = /[0-9a-f]{32}$/.exec(file)?.[0];
  if (found === undefined || written === undefined || mark === undefined) return undefined;
  const { work, owner } = written;
  return { file, mark, work, writtenAt: found.mtimeMs, abandoned: isAbandoned(mark, owner, found.mtimeMs) };
}

/** Ours are never torn. Anything else was put here by somebody, and is nobody's note. */
function parseNote(file: string): Written | undefined {
  try {
    const read = readRegularFile({ path: file, maxBytes: MAX_BYTES });
    const value: unknown = read.kind === "read" ? JSON.parse(read.bytes.toString("utf8")) : undefined;
    // The shape is tied to the type and found nothing wrong.
    return WRITTEN(value) === null ? (value as Written) : undefined;
  } catch {
    return undefined;
  }
}

function isAbandoned(mark: string, owner: ProcessIdentity, writtenAt: number): boolean {
  if (active.has(mark)) return false;
  const self = processIdentity();
  const own = owner.pid === self.pid && owner.started === self.started && owner.boot === self.boot;
  if (own && owner.host === self.host) return true;
  const liveness = livenessOf(owner, self);
  return liveness === "dead" || (liveness === "unknown" && Date.now() - writtenAt > STALE_MS);
}

function sameWork(one: GitWork, other: GitWork): boolean {
  if (one.kind !== "making" || other.kind !== "making") return one.kind === other.kind;
  return one.run === other.run || one.path === other.path;
}

function workBusy(note: WorkNote): HoldfastError {
  const what = note.work.kind === "making" ? `the worktree ${note.work.path} is being made` : "refs are being removed";
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${what} by another process at this moment`,
    hint: "Run the command again when it is done.",
    retry: "later",
  });
}
