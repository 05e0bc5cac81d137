/**
 * Live events for open pages: rows that changed, new journal entries and agent output. It looks only while a page is connected. Events have
 * numbers, so a page that lost its connection gets what it missed, or a `resync`.
 */
import type { JournalEntry } from "@holdfast/core/journal";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { Group, LiveEvent } from "@holdfast/dashboard/api";
import { HoldfastError } from "@holdfast/platform/error";
import type { OpenRepository, Repositories } from "./repositories.ts";
import { headerOf, readLog, readLogs } from "./run-page.ts";
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

const MAX_TOPICS = 20;
const MAX_EVENTS = 10_000;
export const MAX_STREAMS = 32;
const LOGS_MS = 250;
/** Entries that are committed together are one look. */
const TOGETHER_MS = 20;
const STATUS_MS = 1000;
/** How soon a new repository is noticed. Less than the time after which an unused store is closed. */
const LIST_MS = 5000;
const MAX_LOG = 8 * 1024;

export interface Numbered {
  /** `<instance>.<n>` */
  readonly id: string;
  readonly event: LiveEvent;
}

/** The newest events, for pages that come back. Pure. */
export class EventRing {
  readonly #instance: string;
  readonly #events: Numbered[] = [];
  #last = 0;

  constructor(instance: string) {
    this.#instance = instance;
  }

  add(event: LiveEvent): Numbered {
    this.#last += 1;
    const numbered = { id: `${this.#instance}.${this.#last}`, event };
    this.#events.push(numbered);
    // Removing single events from the front of a long array is slow.
    if (this.#events.length > 2 * MAX_EVENTS) this.#events.splice(0, this.#events.length - MAX_EVENTS);
    return numbered;
  }

  get lastId(): string {
    return `${this.#instance}.${this.#last}`;
  }

  /** What came after this event; null: the ring does not know. */
  since(id: string): readonly Numbered[] | null {
    const [, instance, digits = ""] = /^([0-9a-f]+)\.(\d{1,15})$/.exec(id) ?? [];
    const number = Number(digits);
    if (instance !== this.#instance || number > this.#last) return null;
    const missed = this.#last - number;
    if (missed > Math.min(MAX_EVENTS, this.#events.length)) return null;
    return missed === 0 ? [] : this.#events.slice(-missed);
  }
}

/** Whether an event is for a page with these topics. */
export function concerns(event: LiveEvent, topics: Topics): boolean {
  switch (event.event) {
    case "run":
    case "removed":
    case "inbox":
      return topics.runs || (event.event === "run" && topics.entries.has(event.data.key));
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
  readonly send: (numbered: Numbered) => void;
}

/** What pages know of one repository. */
interface Watched {
  readonly opened: OpenRepository;
  readonly stop: AbortController;
  /** Runs with new entries. */
  readonly moved: Set<string>;
  readonly rows: Map<string, KnownRow>;
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
  readonly ring: EventRing;
  readonly #repositories: Repositories;
  readonly #listeners = new Set<Listener>();
  readonly #watched = new Map<string, Watched>();
  readonly #logs = new Map<string, number>();
  #isRunning = false;
  #hasListed = false;
  #watching = Promise.withResolvers<void>();
  #lastSeenAt: number;
  #count = 0;
  #wake: () => void = () => undefined;

  constructor(repositories: Repositories, instance: string) {
    this.ring = new EventRing(instance);
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
    const numbered = this.ring.add(event);
    for (const { topics, send } of this.#listeners) if (concerns(event, topics)) send(numbered);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    let [secondAt, listedAt] = [0, 0];
    while (this.#listeners.size > 0) {
      const now = this.#repositories.now();
      const isSecond = Math.abs(now - secondAt) >= STATUS_MS - TOGETHER_MS;
      if (isSecond) secondAt = now;
      if (Math.abs(now - listedAt) >= LIST_MS) {
        listedAt = now;
        await this.#watchAll();
        this.#hasListed = true;
        this.#watching.resolve();
      }
      for (const [store, watched] of this.#watched) {
        try {
          await this.#look(watched, isSecond);
          await this.#newLogs(watched.opened);
        } catch {
          // The next query reports why the store cannot be read.
          this.#forget(store);
        }
      }
      await this.#pause();
    }
    // What changes while no page is connected is not known: a page that comes back fetches again.
    for (const store of this.#watched.keys()) this.#forget(store);
    this.#logs.clear();
    this.#watching = Promise.withResolvers<void>();
    this.#isRunning = false;
    this.#hasListed = false;
  }

  /** Until the next look. New entries end it early; agent output is looked for more often. */
  async #pause(): Promise<void> {
    const isReading = [...this.#listeners].some(({ topics }) => topics.logs.size > 0);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, isReading ? LOGS_MS : STATUS_MS);
      this.#wake = () => {
        this.#wake = () => undefined;
        clearTimeout(timer);
        setTimeout(resolve, TOGETHER_MS);
      };
      for (const { moved } of this.#watched.values()) if (moved.size > 0) this.#wake();
    });
  }

  /** Opens repositories that are new in the list, and stops those that are gone. */
  async #watchAll(): Promise<void> {
    const list = this.#repositories.list();
    for (const named of list) {
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
    }
    for (const store of this.#watched.keys()) if (!list.some((one) => one.store === store)) this.#forget(store);
  }

  #forget(store: string): void {
    this.#watched.get(store)?.stop.abort();
    this.#watched.delete(store);
    this.#emit({ event: "resync", data: { reason: "a repository was opened or closed" } });
  }

  async #watch(opened: OpenRepository): Promise<void> {
    const { store } = opened.named;
    this.#watched.get(store)?.stop.abort();
    const watched: Watched = { opened, stop: new AbortController(), moved: new Set(), rows: new Map() };
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
    try {
      for await (const entry of entries) {
        watched.moved.add(entry.run);
        this.#wake();
        const key = `${watched.opened.named.key}/${entry.run}`;
        if (this.#wantsEntries(key)) this.#emit({ event: "entry", data: { ...headerOf(entry), key } });
      }
    } catch {
      this.#forget(watched.opened.named.store);
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
    const before = this.#count;
    for (const id of ids) await this.#compare(watched, id);
    if (this.#count !== before) this.#emit({ event: "inbox", data: { count: this.#count } });
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
      if (rows.get(id)?.group === "you") this.#count -= 1;
      rows.delete(id);
      this.#emit({ event: "removed", data: { key: `${opened.named.key}/${id}` } });
    }
  }

  /** Whether it differs from what was known. */
  #remember({ rows }: Pick<Watched, "rows">, found: Pick<RunWithStatus, "run" | "status">): boolean {
    const { run, status } = found;
    const group = groupOf(found, this.#repositories.now());
    const known = rows.get(run.id);
    const text = JSON.stringify([status, run.entries, run.unfinishedRestore]);
    if (known?.text === text && known.group === group) return false;
    this.#count += (group === "you" ? 1 : 0) - (known?.group === "you" ? 1 : 0);
    const restless =
      status.kind === "running" ||
      status.kind === "queued" ||
      status.kind === "crashed" ||
      (status.kind === "waiting" && status.until !== null && !status.due);
    rows.set(run.id, { text, group, restless });
    return true;
  }

  async #newLogs(opened: OpenRepository): Promise<void> {
    const prefix = `${opened.named.key}/`;
    const wanted = new Set([...this.#listeners].flatMap(({ topics }) => [...topics.logs]));
    for (const key of wanted) {
      if (!key.startsWith(prefix)) continue;
      const run = key.slice(prefix.length);
      const isNew = !this.#logs.has(key);
      this.#logs.set(key, 0);
      for (const { number, bytes } of await logsOf(opened, run)) {
        const place = `${key} ${number}`;
        // The page reads what was there before it asked.
        const known = this.#logs.get(place) ?? (isNew ? bytes : 0);
        this.#logs.set(place, known);
        if (bytes <= known) continue;
        const { offset, text, next } = await readLog(opened, run, { number, offset: known, limit: MAX_LOG });
        this.#logs.set(place, next);
        this.#emit({ event: "log", data: { key, number, offset, text } });
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
