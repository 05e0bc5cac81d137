// Live updates: one event stream for all tabs of the browser, and queries that follow it. The tab that holds a lock reads the stream and passes
// the events on; browsers allow about six connections to an origin, so a stream in each tab would block every request.
import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { CheckpointsPage, LiveEvent, Problem } from "./api.ts";
import { Refused, get, problemOf, request, session } from "./client.ts";
import { createStore, newId, stoppedAt, useStore } from "./store.ts";

/** `old`: the stream has been down for some seconds, and what is shown may be old. */
export type Connection = { readonly kind: "live" } | { readonly kind: "old"; readonly since: number };
export const connection = createStore<Connection>({ kind: "live" });
/** The user stopped updates. */
export const frozen = createStore(false);

const OLD_AFTER = 3000;
const SHORTEST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** The server sends a ping every 15 seconds. */
const SILENT_AFTER = 40_000;
const HIDDEN_AFTER = 60_000;

interface StreamEvent {
  readonly event: string;
  readonly data: string;
}

/** Splits a part of an event stream into whole events and the rest. */
export function parseEvents(text: string): { readonly events: readonly StreamEvent[]; readonly rest: string } {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  const events = blocks.flatMap((block) => {
    const fields = { event: "message", data: [] as string[] };
    for (const line of block.split("\n")) {
      const [, name = "", value = ""] = /^([a-z]+):? ?(.*)$/.exec(line) ?? [];
      if (name === "data") fields.data.push(value);
      else if (name === "event") fields.event = value;
    }
    return fields.data.length === 0 ? [] : [{ event: fields.event, data: fields.data.join("\n") }];
  });
  return { events, rest };
}

type Listener = (event: LiveEvent) => void;
type Message =
  | { readonly kind: "event"; readonly event: LiveEvent }
  | { readonly kind: "connection"; readonly connection: Connection }
  | { readonly kind: "topics"; readonly tab: string; readonly topics: readonly string[] }
  | { readonly kind: "leader" };

const RESYNC: LiveEvent = { event: "resync", data: { reason: "the user acted" } };
const tab = newId();
const tabs = new BroadcastChannel("holdfast.live");
const listeners = new Set<Listener>();
/** How often each topic is used in this tab. */
const used = new Map<string, number>();
const topicsOfTabs = new Map<string, readonly string[]>();
let leads = false;
let hidden = false;
let stream: AbortController | null = null;
let streamed = "";
let missedWhileFrozen = false;

export function startLive(): void {
  tabs.addEventListener("message", ({ data }: MessageEvent<Message>) => receive(data));
  addEventListener("pagehide", () => tell({ kind: "topics", tab, topics: [] }));
  watchVisibility();
  watchAge();
  const lead = (): Promise<void> => {
    leads = true;
    tell({ kind: "leader" });
    return readStream();
  };
  // Browsers have locks for loopback and https only. With --host each tab reads a stream of its own.
  if (!isSecureContext) void lead();
  // The lock is held until this tab is closed.
  else void navigator.locks.request("holdfast.live", lead);
}

/** Subscribes to topics. Returns what ends the subscription. */
export function subscribe(topics: readonly string[], listener: Listener): () => void {
  listeners.add(listener);
  for (const topic of topics) used.set(topic, (used.get(topic) ?? 0) + 1);
  if (topics.length > 0) topicsChanged();
  return () => {
    listeners.delete(listener);
    for (const topic of topics) {
      const count = (used.get(topic) ?? 1) - 1;
      if (count === 0) used.delete(topic);
      else used.set(topic, count);
    }
    if (topics.length > 0) topicsChanged();
  };
}

/** Fetches again what this tab shows: after an action of the user it must not wait for the stream. */
export function refresh(): void {
  emit(RESYNC);
}

export function setFrozen(value: boolean): void {
  frozen.set(value);
  if (!value && missedWhileFrozen) emit(RESYNC);
  missedWhileFrozen = false;
}

function receive(message: Message): void {
  switch (message.kind) {
    case "event":
      if (!leads) emit(message.event);
      return;
    case "connection":
      if (!leads) setConnection(message.connection);
      return;
    case "leader":
      tell({ kind: "topics", tab, topics: ownTopics() });
      return;
    case "topics":
      if (message.topics.length === 0) topicsOfTabs.delete(message.tab);
      else topicsOfTabs.set(message.tab, message.topics);
      if (leads) restartIfNeeded();
  }
}

function tell(message: Message): void {
  tabs.postMessage(message);
}

function emit(event: LiveEvent): void {
  if (frozen.get()) {
    if (event.event !== "ping") missedWhileFrozen = true;
    return;
  }
  for (const listener of listeners) listener(event);
}

function setConnection(value: Connection): void {
  connection.set(value);
  stoppedAt.set(value.kind === "old" ? value.since : null);
}

function ownTopics(): readonly string[] {
  return [...used.keys()].filter((topic) => !(hidden && topic.startsWith("log:")));
}

/** Effects of one render come together, so that moving between pages restarts the stream once. */
let changed = 0;
function topicsChanged(): void {
  clearTimeout(changed);
  changed = window.setTimeout(() => {
    tell({ kind: "topics", tab, topics: ownTopics() });
    if (leads) restartIfNeeded();
  }, 20);
}

function allTopics(): string {
  // The server limits their number: what every page needs comes first.
  const topics = new Set([...ownTopics(), ...[...topicsOfTabs.values()].flat()]);
  return [...topics].sort((a, b) => Number(a !== "runs") - Number(b !== "runs") || (a < b ? -1 : 1)).join(",");
}

function restartIfNeeded(): void {
  if (allTopics() !== streamed) stream?.abort();
}

async function readStream(): Promise<void> {
  let wait = SHORTEST_WAIT;
  for (;;) {
    await sessionOpen();
    streamed = allTopics();
    stream = new AbortController();
    try {
      const started = Date.now();
      await readOnce(stream);
      if (Date.now() - started > LONGEST_WAIT) wait = SHORTEST_WAIT;
    } catch (error) {
      // Another set of topics is wanted: open the next stream at once.
      if (stream.signal.aborted && stream.signal.reason !== "silent") continue;
      if (error instanceof Refused && error.status === 401) continue;
    }
    lost ??= Date.now();
    await new Promise((resolve) => {
      setTimeout(resolve, wait * (0.7 + Math.random() * 0.6));
    });
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}

/** When the stream ended; null: it is open. */
let lost: number | null = null;

function watchAge(): void {
  setInterval(() => {
    if (!leads) return;
    if (session.get().kind === "none") lost ??= Date.now();
    if (lost !== null && Date.now() - lost > OLD_AFTER && connection.get().kind === "live")
      publish({ kind: "old", since: lost });
  }, 500);
}

function publish(value: Connection): void {
  setConnection(value);
  tell({ kind: "connection", connection: value });
}

async function readOnce(own: AbortController): Promise<void> {
  let silence = 0;
  const heard = (): void => {
    clearTimeout(silence);
    silence = window.setTimeout(() => own.abort("silent"), SILENT_AFTER);
  };
  heard();
  try {
    const response = await request(`/api/events?topics=${encodeURIComponent(streamed)}`, { signal: own.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (reader === undefined) return;
    lost = null;
    if (connection.get().kind === "old") publish({ kind: "live" });
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const parsed = parseEvents(rest + value);
      rest = parsed.rest;
      for (const { event, data } of parsed.events) share({ event, data: JSON.parse(data) } as LiveEvent);
    }
  } finally {
    clearTimeout(silence);
  }
}

function share(event: LiveEvent): void {
  tell({ kind: "event", event });
  emit(event);
}

function sessionOpen(): Promise<void> {
  return new Promise((resolve) => {
    if (session.get().kind === "open") return resolve();
    const stop = session.subscribe((value) => {
      if (value.kind !== "open") return;
      stop();
      resolve();
    });
  });
}

/** The output of agents is not sent to a tab that has been hidden for a minute. */
function watchVisibility(): void {
  let timer = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    const setHidden = (value: boolean): void => {
      if (hidden === value) return;
      hidden = value;
      topicsChanged();
    };
    if (document.visibilityState === "visible") setHidden(false);
    else timer = window.setTimeout(() => setHidden(true), HIDDEN_AFTER);
  });
}

export interface Query<T> {
  /** The newest answer. It stays while the next one is fetched. */
  readonly data: T | null;
  readonly problem: Problem | null;
  readonly again: () => void;
}

/** What an event does to an answer: another answer, the same one, or a new request. */
export type Follow<T> = (data: T, event: LiveEvent) => T | "again";

/** The newest checkpoints of a run, and those around an old one. */
export function useCheckpoints(run: string | null, around?: number): readonly CheckpointSummary[] {
  const path = run === null ? null : `/api/runs/${run}/checkpoints?limit=200`;
  const topics = run === null ? [] : [`run:${run}`];
  const follow = afterEntry(run ?? "", /checkpoint|tag/);
  const newest = useQuery<CheckpointsPage>(path, topics, follow).data?.checkpoints ?? [];
  const oldest = newest.at(-1)?.sequence ?? 0;
  const isOld = around !== undefined && around <= oldest;
  const older = useQuery<CheckpointsPage>(
    isOld ? `${path}&before=${Math.min(oldest, around + 100)}` : null,
    topics,
    follow,
  );
  return isOld ? [...newest, ...(older.data?.checkpoints ?? [])] : newest;
}

/** Asks again after an entry of the run whose kind matches. */
export function afterEntry(run: string, kind = /./): <T>(data: T, event: LiveEvent) => T | "again" {
  return (data, event) =>
    event.event === "entry" && event.data.key === run && kind.test(event.data.kind) ? "again" : data;
}

const answers = new Map<string, unknown>();
const ANSWERS = 60;

function keep(path: string, data: unknown): void {
  answers.delete(path);
  answers.set(path, data);
  const [oldest] = answers.keys();
  if (answers.size > ANSWERS && oldest !== undefined) answers.delete(oldest);
}

/** Fetches a path, and again when the stream asks for it. Null: there is nothing to fetch. */
export function useQuery<T>(path: string | null, topics: readonly string[] = [], follow?: Follow<T>): Query<T> {
  const open = useStore(session).kind === "open";
  const [state, setState] = useState<{ path: string | null; data: T | null; problem: Problem | null }>(() => ({
    path,
    data: kept<T>(path),
    problem: null,
  }));
  const followed = useRef(follow);
  followed.current = follow;
  const fetchAgain = useRef(() => {});
  const topicList = topics.join(",");

  useEffect(() => {
    if (path === null || !open) return;
    let [timer, took] = [0, 0];
    let running: AbortController | null = null;
    let wanted = false;
    const show = (data: T | null, problem: Problem | null): void => setState({ path, data, problem });
    const load = async (): Promise<void> => {
      if (running !== null) {
        wanted = true;
        return;
      }
      running = new AbortController();
      const { signal } = running;
      const started = performance.now();
      try {
        const data = await get<T>(path, signal);
        keep(path, data);
        show(data, null);
      } catch (error) {
        if (!signal.aborted) show(kept<T>(path), problemOf(error));
      }
      running = null;
      took = performance.now() - started;
      if (wanted && !signal.aborted) {
        wanted = false;
        again();
      }
    };
    // Events that come without a pause must neither delay the next request for ever, nor keep the server busy with a long answer.
    const again = (): void => {
      if (timer !== 0) return;
      const due = (): void => {
        timer = 0;
        void load();
      };
      timer = window.setTimeout(due, Math.max(60, 3 * took));
    };
    fetchAgain.current = again;
    const before = kept<T>(path);
    show(before, null);
    void load();
    const stop = subscribe(topicList === "" ? [] : topicList.split(","), (event) => {
      if (event.event === "resync") return again();
      if (event.event === "ping" || followed.current === undefined) return;
      const data = kept<T>(path);
      const next = data === null ? "again" : followed.current(data, event);
      if (next === data) return;
      // An answer that is on its way may be older than the event.
      if (next === "again" || running !== null) again();
      if (next === "again") return;
      keep(path, next);
      show(next, null);
    });
    return () => {
      stop();
      clearTimeout(timer);
      running?.abort();
    };
  }, [path, open, topicList]);

  // Until the effect of a new path has run, the state is that of the old one.
  const current = state.path === path ? state : { data: kept<T>(path), problem: null };
  return { data: current.data, problem: current.problem, again: () => fetchAgain.current() };
}

function kept<T>(path: string | null): T | null {
  // Only answers of this path are stored under it.
  return path === null ? null : ((answers.get(path) as T | undefined) ?? null);
}
