import { constants } from "node:fs";
import { lstat, mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { makeDurableDirectory, syncDirectory, writeDurable } from "@holdfast/platform/files";
import { asRecord } from "./json.ts";

/** A checkpoint of a run, asked for by a process that does not hold its lease. */
export interface CheckpointRequest {
  /** Random, safe in a file's name. */
  readonly id: string;
  readonly run: string;
  /** Of the lease whose holder is asked. Nobody else answers: one that outlives its lease is nobody's. */
  readonly epoch: number;
  readonly name: string | null;
}

/**
 * What shall become of a run, said by somebody who does not carry it. It is for whoever carries the run, now or next, and stands until that is
 * done or taken back.
 */
export type Signal = {
  /** Random, safe in a file's name; tells it from the next one of its kind. */
  readonly id: string;
  readonly run: string;
  /** Who says so, for the journal. */
  readonly by: string;
  readonly at: string;
  readonly reason: string;
  /** Do not wait for the next safe point. */
  readonly now: boolean;
  /** "pause": stop, until somebody resumes it. "abort": end it for good. */
  readonly kind: "pause" | "abort";
};

/**
 * Notes to whoever holds a run's lease. They are wishes, not records: what was answered is told by the journal alone, so a note that is lost costs
 * a try, and one that is read twice (it is taken once) nothing. Of a withdrawal and a taking at the same moment exactly one succeeds.
 */
export interface Signals {
  /** The holder can see it, whole, when this resolves. The same id again replaces what was asked. */
  ask(request: CheckpointRequest): Promise<void>;
  /** All of a run that nobody has taken, in no order. Those that cannot be read are removed. */
  waiting(run: string): Promise<readonly CheckpointRequest[]>;
  /** The holder is at it. false: it was withdrawn, or is taken already. */
  take(request: CheckpointRequest): Promise<boolean>;
  /** Whoever asked wants it no more. false: too late, it was taken. */
  withdraw(request: CheckpointRequest): Promise<boolean>;
  /** "gone": answered, given up, withdrawn, or never asked. */
  stateOf(request: CheckpointRequest): Promise<"waiting" | "taken" | "gone">;
  /** The holder is done with it, one way or the other. A second call does nothing. */
  finish(request: CheckpointRequest): Promise<void>;
  /** Durable when it resolves. One of each kind a run: the later takes the place of the earlier. */
  order(order: Signal): Promise<void>;
  /** What stands; an order to abort before one to pause. Throws where it cannot be told: nobody may take that for "nothing". */
  orderFor(run: string): Promise<Signal | null>;
  /** It is done, or taken back. One that took its place meanwhile stands. */
  settle(order: Signal): Promise<void>;
  /** Removes what was asked of others than the holder of this epoch, and what they left when they died. */
  sweep(params: { readonly run: string; readonly epoch: number }): Promise<void>;
}

/** Notes as files in the store's own directory, which is its owner's alone: `requests/<run>/<id>.json`, once taken `<id>.taken`. */
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
      // In this order: it can be taken between the two looks, and never goes back.
      if (await isThere(waitingAt(request))) return "waiting";
      return (await isThere(takenAt(request))) ? "taken" : "gone";
    },
    finish: (request) => rm(takenAt(request), { force: true }),
    async sweep({ run, epoch }) {
      for (const name of await namesIn(directoryOf(run))) {
        const path = join(directoryOf(run), name);
        const request = parseRequest(await readNote(path), { run, id: name.replace(/\..*$/, "") });
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

/** Orders as files in the store's own directory: `orders/<run>/<kind>.json`. They outlive the process that they are for. */
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
    orderFor: async (run) => (await read(run, "abort")) ?? (await read(run, "pause")),
    async settle(order) {
      if ((await read(order.run, order.kind))?.id !== order.id) return;
      await rm(placeOf(order.run, order.kind), { force: true });
      syncDirectory(directoryOf(order.run));
    },
  };
}

/** The writer writes it whole or not at all. Damaged, it says at least of which kind it was: stopping is the safe reading. */
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
