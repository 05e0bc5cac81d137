import { constants } from "node:fs";
import { lstat, mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointRequest, Requests } from "../ports/requests.ts";
import { createOrderFiles } from "./order-files.ts";

/** Notes as files in the store's own directory, which is its owner's alone: `requests/<run>/<id>.json`, once taken `<id>.taken`. */
export function createRequestFiles(store: string): Requests {
  const directoryOf = (run: string): string => join(store, "requests", run);
  const waitingAt = ({ run, id }: CheckpointRequest): string => join(directoryOf(run), `${id}.json`);
  const takenAt = ({ run, id }: CheckpointRequest): string => join(directoryOf(run), `${id}.taken`);
  return {
    ...createOrderFiles(store),
    async ask(request) {
      checkId(request.id);
      await mkdir(directoryOf(request.run), { recursive: true, mode: 0o700 });
      const place = waitingAt(request);
      // Under a name that nobody reads until it is whole. Not synced: after a power cut there is nobody to answer it.
      const file = await open(`${place}.new`, "w", 0o600);
      try {
        await file.writeFile(JSON.stringify(request));
      } finally {
        await file.close();
      }
      await rename(`${place}.new`, place);
    },
    async waiting(run) {
      const found: CheckpointRequest[] = [];
      for (const name of await namesIn(directoryOf(run))) {
        if (!name.endsWith(".json")) continue;
        const path = join(directoryOf(run), name);
        const request = parse(await readNote(path), { run, id: name.slice(0, -".json".length) });
        if (request === "gone") continue;
        if (request === "unreadable") await remove(path);
        else found.push(request);
      }
      return found;
    },
    take: (request) => moved(() => rename(waitingAt(request), takenAt(request))),
    withdraw: (request) => moved(() => rm(waitingAt(request))),
    async stateOf(request) {
      // In this order: it can be taken between the two looks, and never goes back.
      if (await isThere(waitingAt(request))) return "waiting";
      return (await isThere(takenAt(request))) ? "taken" : "gone";
    },
    finish: (request) => rm(takenAt(request), { force: true }),
    async sweep({ run, epoch }) {
      for (const name of await namesIn(directoryOf(run))) {
        const path = join(directoryOf(run), name);
        const request = parse(await readNote(path), { run, id: name.replace(/\..*$/, "") });
        if (typeof request === "string" || request.epoch !== epoch) {
          // One that is being written at this moment is for the holder of now.
          if (!name.endsWith(".new") || (await isOld(path))) await remove(path);
        }
      }
    },
  };
}

const LONGEST_WRITE_MS = 60_000;

async function isOld(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs > LONGEST_WRITE_MS;
}

function checkId(id: string): void {
  if (!/^[a-z0-9-]{1,64}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} cannot name a request`);
}

function parse(
  text: string | null,
  expected: Pick<CheckpointRequest, "run" | "id">,
): CheckpointRequest | "gone" | "unreadable" {
  if (text === null) return "gone";
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return "unreadable";
  }
  if (typeof parsed !== "object" || parsed === null) return "unreadable";
  const { id, run, epoch, name } = parsed as Partial<Record<keyof CheckpointRequest, unknown>>;
  if (id !== expected.id || run !== expected.run || typeof epoch !== "number") return "unreadable";
  if (name !== null && typeof name !== "string") return "unreadable";
  return { id: expected.id, run: expected.run, epoch, name };
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await missing(readdir(directory), []);
}

/** null: it is not there. Empty, as if torn, for what cannot be a note of ours: a link, a pipe that nobody writes to, a folder, something huge. */
async function readNote(path: string): Promise<string | null> {
  const found = await missing(lstat(path), null);
  if (found === null) return null;
  if (!found.isFile() || found.size > LONGEST_NOTE) return "";
  return await missing(readFile(path, { encoding: "utf8", flag: NEVER_WAITS }), null);
}

/** Bytes; the longest name of a checkpoint is far below. */
const LONGEST_NOTE = 65_536;
const NEVER_WAITS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

async function remove(path: string): Promise<void> {
  await rm(path, { force: true, recursive: true });
}

async function isThere(path: string): Promise<boolean> {
  return await missing(
    stat(path).then(() => true),
    false,
  );
}

async function moved(move: () => Promise<void>): Promise<boolean> {
  return await missing(
    move().then(() => true),
    false,
  );
}

async function missing<T>(work: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return otherwise;
    throw error;
  }
}
