/**
 * Live events for open pages: rows that changed, new journal entries and growing logs. It looks only while a page is connected. No event is
 * kept: a page that connects, for the first time or again, fetches what it shows.
 */
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type { JournalEntry } from "@holdfast/core/journal";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { Group, LiveEvent } from "@holdfast/dashboard/api";
import { HoldfastError } from "@holdfast/platform/error";
import { type OpenRepository, type Repositories, inParallel } from "./repositories.ts";
import { headerOf, readLogs } from "./run-page.ts";
import { groupOf } from "./run-rows.ts";

/** What a page wants to know. */
export interface Topics {
  readonly runs: boolean;
  /** Keys of runs whose entries it wants. */
  readonly entries: ReadonlySet<string>;
  readonly logs: ReadonlySet<string>;
}

/** `runs,run:shop/issue-42,log:shop/issue-42` */
export function parseTopics(text: string): Topics {
  const words = text.split(",").slice(0, MAX_TOPICS);
  const named = (prefix: string): ReadonlySet<string> =>
    new Set(words.filter((word) => word.startsWith(prefix)).map((word) => word.slice(prefix.length)));
  return { runs: words.includes("runs"), entries: named("run:"), logs: named("log:") };
}

/** Of all tabs of a browser. */
const MAX_TOPICS = 200;
export const MAX_STREAMS = 32;
const LOGS_MS = 250;
/** Entries that are committed together are one look. */
const TOGETHER_MS = 20;
const STATUS_MS = 1000;
/** How long the others wait for the look at one store. */
const LOOK_MS = 500;
/** How soon a new repository is noticed. Less than the time after which an unused store is closed. */
const LIST_MS = 5000;

/** Entries that are sent in one turn. Less than a stream may have waiting. */
const TURN = 100;

/** An event, and the text of its data: made once for all pages. */
export interface Sent {
  readonly event: LiveEvent;
  readonly text: string;
}

/** Whether an event is for a page with these topics. */
export function concerns(event: LiveEvent, topics: Topics): boolean {
  switch (event.event) {
    case "run":
    case "removed":
      return topics.runs || topics.entries.has(event.data.key);
    case "entry":
      return topics.entries.has(event.data.key);
    case "log":
      return topics.logs.has(event.data.key);
    case "resync":
    case "ping":
      return true;
  }
}

interface Listener {
  readonly topics: Topics;
  readonly send: (sent: Sent) => void;
}

/** What pages know of one repository. */
interface Watched {
  readonly opened: OpenRepository;
  readonly stop: AbortController;
  /** Runs with new entries. */
  readonly moved: Set<string>;
  readonly rows: Map<string, KnownRow>;
  /** A look has begun and not ended. */
  isBusy: boolean;
}

interface KnownRow {
  /** Status and number of entries, as text. */
  readonly text: string;
  readonly group: Group;
  /** Its status may change without a new entry: a process holds it, died, or it waits until a time. */
  readonly restless: boolean;
}

/** One loop for all pages. */
export class LiveEvents {
  readonly #repositories: Repositories;
  readonly #listeners = new Set<Listener>();
  readonly #watched = new Map<string, Watched>();
  readonly #logs = new Map<string, number>();
  #isRunning = false;
  #hasListed = false;
  #watching = Promise.withResolvers<void>();
  #lastSeenAt: number;
  #wake: () => void = () => undefined;

  constructor(repositories: Repositories) {
    this.#repositories = repositories;
    this.#lastSeenAt = repositories.now();
    repositories.onRead = () => this.#emit({ event: "resync", data: { reason: "more is known" } });
  }

  get streams(): number {
    return this.#listeners.size;
  }

  /** When a page was last connected. */
  get lastSeenAt(): number {
    return this.#listeners.size > 0 ? this.#repositories.now() : this.#lastSeenAt;
  }

  /** Resolves when every later change is noticed. A page that fetches after that misses nothing. */
  get watching(): Promise<void> {
    return this.#watching.promise;
  }

  /** Sends every later event of these topics until the returned function is called. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    this.#wake();
    if (!this.#isRunning) void this.#run();
    return () => {
      this.#listeners.delete(listener);
      this.#lastSeenAt = this.#repositories.now();
    };
  }

  #emit(event: LiveEvent): void {
    const sent = { event, text: JSON.stringify(event.data) };
    for (const { topics, send } of this.#listeners) if (concerns(event, topics)) send(sent);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    let [secondAt, listedAt] = [0, 0];
    while (this.#listeners.size > 0) {
      const now = this.#repositories.now();
      const isSecond = Math.abs(now - secondAt) >= STATUS_MS - TOGETHER_MS;
      if (isSecond) secondAt = now;
      if (Math.abs(now - listedAt) >= LIST_MS - TOGETHER_MS) {
        listedAt = now;
        // Without a list, the stores that are known are watched. The next query reports why there is none.
        await this.#watchAll().catch(() => undefined);
        this.#hasListed = true;
        this.#watching.resolve();
      }
      for (const watched of this.#watched.values()) {
        if (watched.isBusy) continue;
        // A store that does not answer must not hold up the others.
        await Promise.race([this.#lookAt(watched, isSecond), sleep(LOOK_MS, undefined, { ref: false })]);
      }
      await this.#pause();
    }
    for (const store of this.#watched.keys()) this.#forget(store);
    this.#logs.clear();
    this.#watching = Promise.withResolvers<void>();
    this.#isRunning = false;
    this.#hasListed = false;
  }

  /** Until the next look. New entries end it early; agent output is looked for more often. Each time the process wakes up costs more than the look. */
  async #pause(): Promise<void> {
    const isReading = [...this.#listeners].some(({ topics }) => topics.logs.size > 0);
    const isRestless = [...this.#watched.values()].some(({ rows }) =>
      [...rows.values()].some(({ restless }) => restless),
    );
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, isReading ? LOGS_MS : isRestless ? STATUS_MS : LIST_MS);
      this.#wake = () => {
        this.#wake = () => undefined;
        clearTimeout(timer);
        setTimeout(resolve, TOGETHER_MS);
      };
      for (const { moved, isBusy } of this.#watched.values()) if (moved.size > 0 && !isBusy) this.#wake();
    });
  }

  async #lookAt(watched: Watched, isSecond: boolean): Promise<void> {
    watched.isBusy = true;
    try {
      await this.#look(watched, isSecond);
      await this.#newLogs(watched.opened);
    } catch {
      this.#lose(watched);
    }
    watched.isBusy = false;
    // Entries that came while the loop no longer waited for this look.
    if (watched.moved.size > 0) this.#wake();
  }

  /** Opens repositories that are new in the list, and stops those that are gone. */
  async #watchAll(): Promise<void> {
    const list = this.#repositories.list();
    await inParallel(list, async (named) => {
      const known = this.#watched.get(named.store);
      try {
        // A slow store is watched when it has been read, and at the latest when the list is read again.
        await this.#repositories.inTime(named, async () => {
          const opened = await this.#repositories.openNamed(named);
          if (known?.opened !== opened) await this.#watch(opened);
          return opened;
        });
      } catch {
        if (known !== undefined) this.#forget(named.store);
      }
    });
    for (const store of this.#watched.keys()) if (!list.some((one) => one.store === store)) this.#forget(store);
  }

  #forget(store: string): void {
    this.#watched.get(store)?.stop.abort();
    this.#watched.delete(store);
    this.#emit({ event: "resync", data: { reason: "a repository was opened or closed" } });
  }

  /** The next query reports why the store cannot be read. One that is damaged is tried again and again: pages know it from the first time. */
  #lose(watched: Watched): void {
    const { store } = watched.opened.named;
    if (this.#watched.get(store) === watched) this.#forget(store);
  }

  async #watch(opened: OpenRepository): Promise<void> {
    const { store } = opened.named;
    this.#watched.get(store)?.stop.abort();
    const stop = new AbortController();
    const watched: Watched = { opened, stop, moved: new Set(), rows: new Map(), isBusy: false };
    const entries = opened.holdfast.store.watch({ patient: true, signal: watched.stop.signal });
    void this.#follow(watched, entries);
    for (const found of await opened.holdfast.statuses()) this.#remember(watched, found);
    // A store that took long is there when no page listens any more.
    if (!this.#isRunning) return watched.stop.abort();
    this.#watched.set(store, watched);
    // Pages have fetched their lists without it.
    if (this.#hasListed) this.#emit({ event: "resync", data: { reason: "a repository was opened" } });
  }

  async #follow(watched: Watched, entries: AsyncIterable<JournalEntry>): Promise<void> {
    let count = 0;
    try {
      for await (const entry of entries) {
        // A store on disk gives many entries without a pause: requests and streams must have their turn.
        count += 1;
        if (count % TURN === 0) await setImmediate();
        watched.moved.add(entry.run);
        this.#wake();
        const key = `${watched.opened.named.key}/${entry.run}`;
        if (this.#wantsEntries(key)) this.#emit({ event: "entry", data: { ...headerOf(entry), key } });
      }
    } catch {
      this.#lose(watched);
    }
  }

  #wantsEntries(key: string): boolean {
    return [...this.#listeners].some(({ topics }) => topics.entries.has(key));
  }

  /** Heartbeats and crashes are not entries: each second the runs whose status may change are computed again. */
  async #look(watched: Watched, isSecond: boolean): Promise<void> {
    const { moved, rows } = watched;
    const ids = new Set(moved);
    moved.clear();
    if (isSecond) for (const [id, { restless }] of rows) if (restless) ids.add(id);
    if (ids.size === 0) return;
    for (const id of ids) await this.#compare(watched, id);
  }

  /** Sends the row if it differs from the one that pages know. */
  async #compare(watched: Watched, id: string): Promise<void> {
    const { opened, rows } = watched;
    try {
      const found = await opened.holdfast.runWithStatus(id);
      if (this.#remember(watched, found))
        this.#emit({ event: "run", data: await opened.row(found, this.#repositories.now()) });
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "RUN_NOT_FOUND") throw error;
      rows.delete(id);
      this.#emit({ event: "removed", data: { key: `${opened.named.key}/${id}` } });
    }
  }

  /** Whether it differs from what was known. */
  #remember({ opened, rows }: Pick<Watched, "opened" | "rows">, found: RunWithStatus): boolean {
    const { run, status } = found;
    const continues = opened.continues(found);
    const group = groupOf({ ...found, continues }, this.#repositories.now());
    const known = rows.get(run.id);
    const text = JSON.stringify([status, run.entries, run.unfinishedRestore, continues]);
    if (known?.text === text && known.group === group) return false;
    const restless =
      status.kind === "running" ||
      status.kind === "queued" ||
      status.kind === "crashed" ||
      (status.kind === "waiting" && status.until !== null && !(status.due && continues === null));
    rows.set(run.id, { text, group, restless });
    return true;
  }

  async #newLogs(opened: OpenRepository): Promise<void> {
    const prefix = `${opened.named.key}/`;
    const wanted = new Set([...this.#listeners].flatMap(({ topics }) => [...topics.logs]));
    for (const key of wanted) {
      if (!key.startsWith(prefix)) continue;
      const run = key.slice(prefix.length);
      for (const row of await logsOf(opened, run)) {
        const place = `${key} ${row.number}`;
        if (this.#logs.get(place) === row.bytes) continue;
        this.#logs.set(place, row.bytes);
        this.#emit({ event: "log", data: { key, row } });
      }
    }
  }
}

/** A page may ask for a run that has no record yet. */
async function logsOf(opened: OpenRepository, run: string): Promise<Awaited<ReturnType<typeof readLogs>>> {
  try {
    return await readLogs(opened, run);
  } catch (error) {
    if (error instanceof HoldfastError && (error.code === "RUN_NOT_FOUND" || error.code === "USAGE")) return [];
    throw error;
  }
}
