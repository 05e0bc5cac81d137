// Signals between processes of a store, as files: requests for checkpoints, and pause and abort signals.

import { constants, statSync } from "node:fs";
import { lstat, mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { makeDurableDirectory, syncDirectory, writeDurable } from "@holdfast/platform/files";
import { asRecord } from "./json.ts";

/** A request for a checkpoint, from a process that does not hold the run's lease. */
export interface CheckpointRequest {
  /** Random, safe in a file name. */
  readonly id: string;
  readonly run: string;
  /** Epoch of the lease whose holder is asked. Only that holder answers: a request that outlives the lease is stale. */
  readonly epoch: number;
  readonly name: string | null;
}

/**
 * A pause or abort signal from a process that does not execute the run. It is for the process that executes the run, now or next, and it
 * remains until that process has handled it or the user withdraws it.
 */
export type Signal = {
  /** Random, safe in a file name; distinguishes it from the next signal of its kind. */
  readonly id: string;
  readonly run: string;
  /** The sender, for the journal. */
  readonly by: string;
  readonly at: string;
  readonly reason: string;
  /** Do not wait for the next safe point. */
  readonly now: boolean;
  /** "pause": stop until the user resumes the run. "abort": end it for good. */
  readonly kind: "pause" | "abort";
};

/**
 * Messages to the process that holds a run's lease. They are requests, not records: only the journal contains the answers. A lost message
 * costs a retry, and a message is taken only once. If a withdrawal and a taking coincide, exactly one succeeds.
 */
export interface Signals {
  /** The holder can see the complete request when this resolves. The same id again replaces the request. */
  ask(request: CheckpointRequest): Promise<void>;
  /** All requests of a run that no process has taken, in no order. Unreadable ones are removed. */
  waiting(run: string): Promise<readonly CheckpointRequest[]>;
  /** The holder starts to handle it. False: it was withdrawn or is already taken. */
  take(request: CheckpointRequest): Promise<boolean>;
  /** The sender withdraws its request. False: too late, it was taken. */
  withdraw(request: CheckpointRequest): Promise<boolean>;
  /** "gone": answered, failed, withdrawn, or never asked. */
  stateOf(request: CheckpointRequest): Promise<"waiting" | "taken" | "gone">;
  /** The holder has finished with it, successfully or not. A second call does nothing. */
  finish(request: CheckpointRequest): Promise<void>;
  /** Durable when it resolves. A run has one signal of each kind: a later one replaces the earlier. */
  order(order: Signal): Promise<void>;
  /** The current signal; abort comes before pause. Throws if it cannot be read, because a failure must not look like no signal. */
  orderFor(run: string): Promise<Signal | null>;
  /** The signal was handled or withdrawn. A newer signal that replaced it remains. */
  settle(order: Signal): Promise<void>;
  /** Removes requests to holders of other epochs, and the stale files of dead holders. */
  sweep(params: { readonly run: string; readonly epoch: number }): Promise<void>;
}

/**
 * Requests are files in the store's directory, which only its owner can access: `requests/<run>/<id>.json`, then `<id>.taken` once taken.
 */
export function openSignalFiles(store: string): Signals {
  const directoryOf = (run: string): string => join(store, "requests", run);
  const waitingAt = ({ run, id }: CheckpointRequest): string => join(directoryOf(run), `${id}.json`);
  const takenAt = ({ run, id }: CheckpointRequest): string => join(directoryOf(run), `${id}.taken`);
  return {
    ...createSignalFiles(store),
    async ask(request) {
      checkId(request.id);
      await mkdir(directoryOf(request.run), { recursive: true, mode: 0o700 });
      const place = waitingAt(request);
      // Written under a name that readers ignore until it is complete. Not synced: after a power cut no process is left to answer it.
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
        const request = parseRequest(await readNote(path), { run, id: name.slice(0, -".json".length) });
        if (request === "gone") continue;
        if (request === "unreadable") await remove(path);
        else found.push(request);
      }
      return found;
    },
    take: (request) => moved(() => rename(waitingAt(request), takenAt(request))),
    withdraw: (request) => moved(() => rm(waitingAt(request))),
    async stateOf(request) {
      // The order matters: a request can be taken between the two checks, and it never goes back.
      if (await isThere(waitingAt(request))) return "waiting";
      return (await isThere(takenAt(request))) ? "taken" : "gone";
    },
    finish: (request) => rm(takenAt(request), { force: true }),
    async sweep({ run, epoch }) {
      for (const name of await namesIn(directoryOf(run))) {
        const path = join(directoryOf(run), name);
        const request = parseRequest(await readNote(path), { run, id: name.replace(/\..*$/, "") });
        if (typeof request === "string" || request.epoch !== epoch) {
          // A file that is being written at this moment is for the current holder.
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

function parseRequest(
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
  return isAbsent(directory) ? [] : await missing(readdir(directory), []);
}

/**
 * Every run looks for signals five times a second, and most never get one. This synchronous call costs a twentieth of a call on a thread of
 * the pool.
 */
function isAbsent(directory: string): boolean {
  return statSync(directory, { throwIfNoEntry: false }) === undefined;
}

/**
 * Null: it does not exist. Returns an empty text, as for a torn file, for everything that cannot be a request: a link, a pipe, a folder, a
 * huge file.
 */
async function readNote(path: string): Promise<string | null> {
  const found = await missing(lstat(path), null);
  if (found === null) return null;
  if (!found.isFile() || found.size > LONGEST_NOTE) return "";
  return await missing(readFile(path, { encoding: "utf8", flag: NEVER_WAITS }), null);
}

/** In bytes; the longest name of a checkpoint is far shorter. */
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

/** Signals are files in the store's directory: `orders/<run>/<kind>.json`. They outlive the process that they are for. */
export function createSignalFiles(store: string): Pick<Signals, "order" | "orderFor" | "settle"> {
  const directoryOf = (run: string): string => join(store, "orders", run);
  const placeOf = (run: string, kind: Signal["kind"]): string => join(directoryOf(run), `${kind}.json`);
  const read = async (run: string, kind: Signal["kind"]): Promise<Signal | null> => {
    try {
      return parseOrder(await readFile(placeOf(run, kind), "utf8"), { run, kind });
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
      throw error;
    }
  };
  return {
    order(order) {
      makeDurableDirectory(directoryOf(order.run));
      writeDurable({ path: placeOf(order.run, order.kind), data: Buffer.from(JSON.stringify(order)), mode: "replace" });
      return Promise.resolve();
    },
    orderFor: async (run) =>
      isAbsent(directoryOf(run)) ? null : ((await read(run, "abort")) ?? (await read(run, "pause"))),
    async settle(order) {
      if ((await read(order.run, order.kind))?.id !== order.id) return;
      await rm(placeOf(order.run, order.kind), { force: true });
      syncDirectory(directoryOf(order.run));
    },
  };
}

/** The sender writes the file atomically. The file name of a damaged one still gives its kind, and stopping is the safe interpretation. */
function parseOrder(text: string, { run, kind }: Pick<Signal, "run" | "kind">): Signal {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = {};
  }
  const { id, by, at, reason, now } = asRecord(value);
  return {
    id: typeof id === "string" ? id : "unreadable",
    run,
    kind,
    by: typeof by === "string" ? by : "somebody",
    at: typeof at === "string" && Number.isFinite(Date.parse(at)) ? at : new Date(0).toISOString(),
    reason: typeof reason === "string" ? reason : "the order cannot be read any more",
    now: now === true,
  };
}
