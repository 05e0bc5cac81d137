/** Opens the stores of many repositories for reading, keeps few of them open, and caches what never changes. Nothing here writes to a store. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { type Look, openLook } from "@holdfast/git/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { NO_WORK } from "@holdfast/core/journal";
import { type RunSummary, isEnded } from "@holdfast/core/run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import type { RunStatus } from "@holdfast/core/status";
import type { Group, Problem, Repository, RunRow, RunsPage } from "@holdfast/dashboard/api";
import { toHoldfastError } from "../cli/output/terminal.ts";
import { type Continuer, continuerOf } from "../continuation.ts";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";
import type { NamedRepository } from "../repository-registry.ts";
import { type RunDetails, readStatus } from "../run-status.ts";
import { commandText } from "./actions.ts";
import { GROUPS, JournalReader, type RunFacts, groupOf, lastSaid, readFacts, rowOf } from "./run-rows.ts";

/** `restart`, `raise`: as in the status of the run. */
export type Ending = Pick<RunDetails, "restart" | "raise">;

export const NOT_ENDED: Ending = { restart: null, raise: null };

/** One repository whose store is open. */
export class OpenRepository {
  readonly named: NamedRepository;
  readonly holdfast: Holdfast;
  usedAt = 0;
  readonly #facts = new Map<
    string,
    { readonly entries: number; readonly createdAt: string; readonly facts: RunFacts }
  >();
  readonly #endings = new Map<string, Ending & { readonly entries: number; readonly createdAt: string }>();
  /** Newest last. */
  readonly #readers = new Map<string, { readonly createdAt: string; reader: Promise<JournalReader> }>();

  #look: Promise<Look> | null = null;

  constructor(named: NamedRepository, holdfast: Holdfast) {
    this.named = named;
    this.holdfast = holdfast;
  }

  /** For differences of files. Opened when it is first needed. */
  async look(): Promise<Look> {
    this.#look ??= openLook(this.named.root);
    this.#look.catch(() => (this.#look = null));
    return await this.#look;
  }

  async closeLook(): Promise<void> {
    await (await this.#look?.catch(() => null))?.[Symbol.asyncDispose]();
    this.#look = null;
  }

  async close(): Promise<void> {
    await this.closeLook();
    await this.holdfast.close();
  }

  /** The journal of a run, folded up to its end. Concurrent calls share one pass. */
  async read(run: Pick<RunSummary, "id" | "createdAt">): Promise<JournalReader> {
    const known = this.#readers.get(run.id);
    // A run that was removed and made again has another journal.
    const before = known?.createdAt === run.createdAt ? known.reader : Promise.resolve(new JournalReader());
    const reader = this.#continue(run.id, before);
    this.#readers.delete(run.id);
    this.#readers.set(run.id, { createdAt: run.createdAt, reader });
    const [oldest] = this.#readers.keys();
    if (this.#readers.size > MAX_READERS && oldest !== undefined) this.#readers.delete(oldest);
    // A journal that cannot be read may be repaired later.
    reader.catch(() => this.#readers.delete(run.id));
    return await reader;
  }

  async #continue(run: string, before: Promise<JournalReader>): Promise<JournalReader> {
    const reader = await before;
    const after = reader.timeline.entries;
    for await (const entry of this.holdfast.store.readJournal({ run, after })) reader.read(entry);
    return reader;
  }

  /** Read again only if the run has new entries. */
  async facts(run: RunSummary): Promise<RunFacts> {
    const known = this.#facts.get(run.id);
    if (known?.entries === run.entries && known.createdAt === run.createdAt) return known.facts;
    const facts = await readFacts(this.holdfast, run, await this.read(run));
    this.#facts.set(run.id, { entries: run.entries, createdAt: run.createdAt, facts });
    return facts;
  }

  /** The title, if it was read before; else what the run itself says. */
  textOf({ id, work, workflow }: RunSummary): string {
    const known = this.#facts.get(id)?.facts;
    const what = work.kind === "issue" ? `#${work.number}` : work.kind === "task" ? work.text : "";
    return `${id} ${workflow} ${what} ${known?.title ?? ""} ${known?.branch ?? ""}`.toLowerCase();
  }

  /** How a run that has ended may continue. Read again only if the run has new entries. */
  async ending({
    run,
    status,
  }: {
    readonly run: Pick<RunSummary, "id" | "entries" | "createdAt">;
    readonly status: RunStatus;
  }): Promise<Ending> {
    if (!isEnded(status)) return NOT_ENDED;
    const { id, entries, createdAt } = run;
    const known = this.#endings.get(id);
    if (known?.entries === entries && known.createdAt === createdAt) return known;
    const { holdfast } = this;
    try {
      // Not `holdfast.status`, which repairs files of layouts.
      const found = await holdfast.runWithStatus(id);
      const { restart, raise } = await readStatus(holdfast.store, await holdfast.run(id), found, Date.now());
      const ending = { entries, createdAt, restart, raise };
      this.#endings.set(id, ending);
      return ending;
    } catch (error) {
      // A damaged run is shown with its reason.
      if (error instanceof HoldfastError) return NOT_ENDED;
      throw error;
    }
  }

  continues(found: Pick<RunWithStatus, "run" | "status" | "submitted">): Continuer | null {
    return continuerOf({ store: this.named.store, root: this.named.root, env: process.env }, found);
  }

  group(found: Pick<RunWithStatus, "run" | "status" | "submitted">, now: number): Group {
    return groupOf({ ...found, continues: this.continues(found) }, now);
  }

  /** A run whose journal or checkpoints are damaged is shown with its reason. */
  async row(found: Found, now: number): Promise<RunRow> {
    // A log that is removed meanwhile says nothing.
    const said =
      found.status.kind === "running" ? await lastSaid(this.holdfast.logs, found.run.id).catch(() => null) : null;
    try {
      return this.#rowOf(found, { facts: await this.facts(found.run), said, now });
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      const { latest } = found.run;
      const facts = { ...unreadFacts(found.run), damaged: latest === null ? [] : [latest.sequence] };
      return { ...this.#rowOf(found, { facts, said, now }), group: "you", reason: error.message };
    }
  }

  /** Of a store that does not answer: what is known of the run without reading. */
  knownRow(found: Found, now: number): RunRow {
    const facts = this.#facts.get(found.run.id)?.facts ?? unreadFacts(found.run);
    return this.#rowOf(found, { facts, said: null, now });
  }

  #rowOf(
    found: Found,
    known: { readonly facts: RunFacts; readonly said: string | null; readonly now: number },
  ): RunRow {
    return rowOf({ repository: this.named.key, found, continues: this.continues(found), ...known });
  }
}

type Found = Pick<RunWithStatus, "run" | "status" | "submitted">;

function unreadFacts({ id, latest, createdAt }: RunSummary): RunFacts {
  return {
    title: id,
    step: null,
    scores: [],
    checks: [],
    budget: null,
    worked: NO_WORK,
    branch: null,
    pullRequest: null,
    issue: null,
    crashes: 0,
    ownMicroUsd: 0,
    restored: null,
    updatedAt: latest?.createdAt ?? createdAt,
    damaged: [],
  };
}

const MAX_READERS = 64;
const MAX_OPEN = 32;
/** A handle that was used this recently may still be in use. */
const BUSY_MS = 10_000;
const IDLE_MS = 60_000;
/** How long a page waits for one store: if there is something to show instead, and if there is nothing. */
const SLOW_MS = 500;
export const FIRST_MS = 3000;
/** How long a request for one run waits for its store. */
const ANSWER_MS = 20_000;
/** Stores that are read at the same time: one that does not answer takes all the time that it is given. */
const AT_ONCE = 8;
/** A slow store is reported to pages at most this often. */
const LATE_REPORT_INTERVAL_MS = 5000;

export interface RepositoriesParams {
  /** Reads the registry again at each call. */
  readonly list: () => readonly NamedRepository[];
  readonly now: () => number;
  /** A command waits until each store is read. A page does not wait long for one. */
  readonly waits: boolean;
}

/** The runs of one store. `late`: when they were read, because reading them again takes too long; null: just now. */
export interface StoreRuns {
  readonly opened: OpenRepository;
  readonly runs: readonly RunWithStatus[];
  readonly late: number | null;
}

interface Handle {
  readonly opening: Promise<OpenRepository>;
  /** null while it is being opened. */
  opened: OpenRepository | null;
}

export class Repositories implements AsyncDisposable {
  /** Called when pages must ask again: a store has been read that was too slow for an answer, or a plan has found changes. */
  onRead: () => void = () => undefined;
  readonly #params: RepositoriesParams;
  readonly #open = new Map<string, Handle>();
  /** Stores whose reading takes long. */
  readonly #late = new Set<string>();
  /** What each store gave last. */
  readonly #known = new Map<string, StoreRuns>();
  #reportedAt = 0;

  constructor(params: RepositoriesParams) {
    this.#params = params;
  }

  list(): readonly NamedRepository[] {
    return this.#params.list();
  }

  now(): number {
    return this.#params.now();
  }

  async open(key: string): Promise<OpenRepository> {
    return await this.openNamed(this.named(key));
  }

  /** Throws RUN_NOT_FOUND for a name that is not in the list: names from a request never become paths. */
  named(key: string): NamedRepository {
    const named = this.list().find((one) => one.key === key);
    if (named === undefined)
      throw new HoldfastError({
        code: "RUN_NOT_FOUND",
        message: `There is no repository ${JSON.stringify(key.slice(0, 100))} here`,
        hint: "Run a holdfast command in it, then look again.",
      });
    return named;
  }

  async openNamed(named: NamedRepository): Promise<OpenRepository> {
    // A store that was replaced, such as by a backup, is another one.
    const file = statSync(join(named.store, "store.db"), { throwIfNoEntry: false })?.ino;
    const place = `${named.store}\n${named.key}\n${file}`;
    const handle = this.#open.get(place) ?? this.#start(named, place);
    const opened = await handle.opening;
    opened.usedAt = this.now();
    this.closeUnused();
    return opened;
  }

  /** The runs of a store. A store that is slow gives what it gave before. STORE_BUSY if that is nothing. */
  async runs(named: NamedRepository): Promise<StoreRuns> {
    const read = async (): Promise<StoreRuns> => {
      const at = this.now();
      const opened = await this.openNamed(named);
      const found: StoreRuns = { opened, runs: await opened.holdfast.statuses(), late: null };
      this.#known.set(named.store, { ...found, late: at });
      return found;
    };
    return (await this.inTime(named, read)) ?? this.#known.get(named.store) ?? fail(stillReading(named.name));
  }

  /** null if the work on a store takes long. It continues; until it ends, later calls do not wait for that store again. */
  async inTime<T extends object>(
    { store }: NamedRepository,
    work: () => Promise<T>,
    most = this.#known.has(store) ? SLOW_MS : FIRST_MS,
  ): Promise<T | null> {
    if (this.#params.waits) return await work();
    if (this.#late.has(store)) return null;
    const working = work();
    const { promise, resolve } = Promise.withResolvers<null>();
    const timer = setTimeout(() => {
      this.#late.add(store);
      resolve(null);
      void working.catch(() => undefined).finally(() => this.#wasLate(store));
    }, most);
    try {
      return await Promise.race([working, promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Throws STORE_BUSY if a store does not answer: a browser has six connections to this server, and one that waits is not free. */
  async answer<T>({ store, name }: NamedRepository, work: () => Promise<T>): Promise<T> {
    const working = work();
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(stillReading(name));
      void working.catch(() => undefined).finally(() => this.#wasLate(store));
    }, ANSWER_MS);
    try {
      return await Promise.race([working, promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** A store that is always slow must not make pages ask again without a pause. */
  #wasLate(store: string): void {
    this.#late.delete(store);
    const now = this.now();
    // The clock may have been set back.
    const wait = Math.min(LATE_REPORT_INTERVAL_MS, Math.max(0, this.#reportedAt + LATE_REPORT_INTERVAL_MS - now));
    this.#reportedAt = now + wait;
    setTimeout(() => this.onRead(), wait).unref();
  }

  #start(named: NamedRepository, place: string): Handle {
    const opening = openHoldfast({ cwd: named.root, store: named.store, create: false, readOnly: true }).then(
      (holdfast) => new OpenRepository(named, holdfast),
    );
    const handle: Handle = { opening, opened: null };
    this.#open.set(place, handle);
    opening.then(
      (opened) => (handle.opened = opened),
      () => this.#open.delete(place),
    );
    return handle;
  }

  /** Also for a server that gets no requests: an open store keeps its descriptors, and the files of a repository that was removed. */
  closeUnused(): void {
    const now = this.now();
    const byAge = [...this.#open].flatMap(([place, { opened }]) => (opened === null ? [] : [{ place, opened }]));
    byAge.sort((a, b) => a.opened.usedAt - b.opened.usedAt);
    let excess = byAge.length - MAX_OPEN;
    for (const { place, opened } of byAge) {
      const idle = now - opened.usedAt;
      if (this.#late.has(opened.named.store)) continue;
      if (!(idle > IDLE_MS || (excess > 0 && idle > BUSY_MS))) continue;
      excess -= 1;
      this.#open.delete(place);
      this.#known.delete(opened.named.store);
      // A store that does not answer must not hold up the one that is opened.
      void opened.close().catch(() => undefined);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { opening } of this.#open.values()) await (await opening.catch(() => null))?.close();
    this.#open.clear();
  }
}

/** Results are in the order of the list. */
export async function inParallel<T, R>(list: readonly T[], work: (one: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const rest = list.entries();
  const takeNext = async (): Promise<void> => {
    for (const [at, one] of rest) results[at] = await work(one);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, takeNext));
  return results;
}

export interface RunsQuery {
  readonly repository: string | null;
  readonly statuses: ReadonlySet<string>;
  readonly workflow: string | null;
  /** Lower case. */
  readonly text: string;
  /** How many finished runs. All others are always given. */
  readonly limit: number;
}

export const EVERY_RUN: RunsQuery = {
  repository: null,
  statuses: new Set(),
  workflow: null,
  text: "",
  limit: 50,
};

interface FoundRun {
  readonly in: OpenRepository;
  readonly found: RunWithStatus;
  readonly group: Group;
  /** When it was last saved, restored or ended. */
  readonly at: string;
}

/**
 * The runs of all repositories: what the page shows, and `list --all-repositories` prints. One query a store; the details of a finished run
 * are read only if its row is on the page.
 */
export async function readRuns(repositories: Repositories, query: RunsQuery): Promise<RunsPage> {
  const now = repositories.now();
  const { runs, problems: unread } = await findRuns(repositories, query);
  const problems = [...unread];
  const counts: Record<Group, number> = { you: 0, running: 0, waiting: 0, finished: 0 };
  for (const { group } of runs) counts[group] += 1;
  const ordered = GROUPS.flatMap((group) => {
    const found = runs.filter((one) => one.group === group).toSorted(newestFirst);
    return group === "finished" ? found.slice(0, query.limit) : found;
  });
  const rows: RunRow[] = [];
  for (const one of ordered) {
    const { named } = one.in;
    const row = await repositories.inTime(named, () => one.in.row(one.found, now), FIRST_MS);
    rows.push(row ?? one.in.knownRow(one.found, now));
    if (row === null && !problems.some(({ repository }) => repository === named.key))
      problems.push({ repository: named.key, problem: problemOf(stillReading(named.name)) });
  }
  return { asOf: new Date(now).toISOString(), counts, rows, more: rows.length < runs.length, problems };
}

interface FoundRuns {
  readonly runs: readonly FoundRun[];
  readonly problems: readonly { readonly repository: string; readonly problem: Problem }[];
}

async function findRuns(repositories: Repositories, query: RunsQuery): Promise<FoundRuns> {
  const now = repositories.now();
  const list = repositories.list().filter(({ key }) => query.repository === null || key === query.repository);
  const found = await inParallel(list, async (named): Promise<FoundRuns> => {
    const { key: repository, name } = named;
    try {
      const { opened, runs, late } = await repositories.runs(named);
      const cuts = opened.holdfast.store.withheld?.() ?? [];
      return {
        runs: runs
          .filter((one) => isWanted(one, `${repository} ${opened.textOf(one.run)}`, query))
          .map((one) => ({ in: opened, found: one, group: opened.group(one, now), at: timeOf(one) })),
        problems: [
          ...(late === null ? [] : [problemOf(stillReading(name, late))]),
          ...(cuts.length === 0 ? [] : [cutProblem(cuts, named)]),
        ].map((problem) => ({ repository, problem })),
      };
    } catch (error) {
      return { runs: [], problems: [{ repository, problem: problemOf(error, named) }] };
    }
  });
  return { runs: found.flatMap(({ runs }) => runs), problems: found.flatMap(({ problems }) => problems) };
}

function isWanted({ run, status }: RunWithStatus, words: string, query: RunsQuery): boolean {
  if (query.workflow !== null && run.workflow !== query.workflow) return false;
  return (query.statuses.size === 0 || query.statuses.has(status.kind)) && words.includes(query.text);
}

function timeOf({ run, status }: RunWithStatus): string {
  const ended = status.kind === "done" || status.kind === "failed" ? status.at : "";
  const saved = run.latest?.createdAt ?? run.createdAt;
  // A restore saves a checkpoint after the end.
  return ended > saved ? ended : saved;
}

function newestFirst(a: FoundRun, b: FoundRun): number {
  return a.at === b.at ? compare(keyOf(a), keyOf(b)) : compare(b.at, a.at);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function keyOf({ in: { named }, found }: FoundRun): string {
  return `${named.key}/${found.run.id}`;
}

/** The repositories as the page shows them, each with the reason why it cannot be read. */
export async function readRepositories(repositories: Repositories): Promise<readonly Repository[]> {
  return await inParallel(repositories.list(), async (named) => {
    const { key, name, root } = named;
    const opening = repositories.inTime(named, () => repositories.openNamed(named));
    const problem = await opening.then(
      (opened) => (opened === null ? problemOf(stillReading(name)) : null),
      (error: unknown) => problemOf(error, named),
    );
    return { key, name, path: root, program: commandText(named, []), problem };
  });
}

/** As the CLI reports it. With a repository its commands work from any directory. */
export function problemOf(thrown: unknown, repository?: NamedRepository): Problem {
  const { code, message, hint = "" } = toHoldfastError(thrown);
  return makeProblem(code, message, repository === undefined ? hint : hintIn(repository, hint));
}

/** The hint with commands that name the repository. */
function hintIn(repository: NamedRepository, hint: string): string {
  return hint.replaceAll(/`holdfast (?=[a-z])/g, () => `\`${commandText(repository, [])} `);
}

/** The command is the first one that the hint names. */
export function makeProblem(code: string, message: string, hint: string): Problem {
  return { code, message, hint: hint === "" ? null : hint, command: /`(holdfast [^`]+)`/.exec(hint)?.[1] ?? null };
}

function stillReading(name: string, since: number | null = null): HoldfastError {
  return new HoldfastError({
    code: "STORE_BUSY",
    message: `Still reading ${name}: its store is slow or locked`,
    hint:
      since === null
        ? "It is shown as soon as it can be read."
        : `Its runs are shown as they were at ${new Date(since).toISOString()}.`,
    retry: "later",
  });
}

function fail(error: HoldfastError): never {
  throw error;
}

function cutProblem(cuts: readonly { readonly why: string }[], repository: NamedRepository): Problem {
  const message = `The store is older or shorter than before. Not listed: ${cuts.map(({ why }) => why).join("; ")}`;
  const hint = "The other runs are complete. `holdfast verify` names the damage.";
  return makeProblem("STORE_CUT", message, hintIn(repository, hint));
}
