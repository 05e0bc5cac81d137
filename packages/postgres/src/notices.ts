import { setTimeout as delay } from "node:timers/promises";
import { crc32 } from "node:zlib";
import pg from "pg";
import type { Target } from "./target.ts";

/*
 * Tells other processes that something was committed, and hears of their commits. Signals have a channel of their own: each process of a run polls
 * them, and need not hear of the commits of all other runs. NOTIFY is sent after the commit, because inside of a transaction
 * it makes all commits wait for each other. So a process that is killed in between sends none, and listeners look again after a while anyway.
 */

const LOOK_AGAIN_MS = 1000;
/** For polls of many processes, while notices arrive. */
const POLL_AGAIN_MS = 5000;
/** Many commits in a row are one notice. */
const QUIET_MS = 25;
/** A server that is gone without a word must not keep a process from ending. Listeners look again anyway. */
export const NOTICE_MS = 5000;

export interface Notices {
  committed(): void;
  signalled(): void;
  onChange(listener: () => void): () => void;
  /** Differs after each signal, and every few seconds. */
  version(): string;
  close(): Promise<void>;
}

export function createNotices(params: {
  readonly target: Target;
  /** Marks the notices of this handle, which it does not need. */
  readonly own: string;
  readonly send: (channel: string) => Promise<unknown>;
}): Notices {
  const { target, own } = params;
  const commits = `holdfast_${(crc32(target.schema) >>> 0).toString(16)}`;
  const signals = `${commits}_signals`;
  /** The channels that this process needs. */
  const wanted = new Set<string>();
  const listeners = new Set<() => void>();
  let heard = 0;
  let asked = 0;
  let isConnected = false;
  let isListening = false;
  let isClosed = false;
  let client: pg.Client | undefined;
  let poll: NodeJS.Timeout | undefined;
  let due: NodeJS.Timeout | undefined;
  let sentAt = Number.NEGATIVE_INFINITY;
  let sending: Promise<unknown> = Promise.resolve();

  function changed(channel: string): void {
    if (channel === signals) heard += 1;
    else for (const listener of listeners) listener();
  }

  /** What was sent before the process listened is not heard, so everything may have changed. */
  async function subscribe(to: pg.Client, channels: readonly string[]): Promise<void> {
    await to.query(channels.map((channel) => `LISTEN ${channel}`).join("; "));
    if (channels.includes(signals)) isListening = client === to;
    channels.forEach(changed);
  }

  /** Connects again at the next look when the connection is lost. */
  function listen(channel: string): void {
    if (isClosed) return;
    const isNew = !wanted.has(channel);
    wanted.add(channel);
    // If that fails, signals are read at each poll, and listeners called at each look.
    if (client !== undefined)
      return isNew && isConnected ? void subscribe(client, [channel]).catch(() => {}) : undefined;
    const fresh = new pg.Client(target.client);
    client = fresh;
    const forget = (): void => {
      if (client !== fresh) return;
      client = undefined;
      [isConnected, isListening] = [false, false];
    };
    fresh.on("error", forget);
    fresh.on("end", forget);
    fresh.on("notification", ({ channel: heardOn, payload }) => {
      if (payload !== own) changed(heardOn);
    });
    fresh
      .connect()
      .then(() => {
        isConnected = client === fresh;
        return subscribe(fresh, [...wanted]);
      })
      .then(() => {
        // It must not keep a process that has nothing else to do.
        if ("unref" in fresh && typeof fresh.unref === "function") fresh.unref();
      })
      .catch(() => {
        forget();
        fresh.end().catch(() => {});
      });
  }

  function notify(channel: string): void {
    sending = Promise.all([sending, params.send(channel).catch(() => {})]);
  }

  function send(): void {
    due = undefined;
    sentAt = performance.now();
    notify(commits);
  }

  function look(): void {
    listen(commits);
    changed(commits);
  }

  return {
    committed() {
      if (due !== undefined || isClosed) return;
      if (performance.now() - sentAt > QUIET_MS) send();
      else due = setTimeout(send, QUIET_MS);
    },
    signalled() {
      heard += 1;
      if (!isClosed) notify(signals);
    },
    onChange(listener) {
      listeners.add(listener);
      listen(commits);
      poll ??= setInterval(look, LOOK_AGAIN_MS);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(poll);
        poll = undefined;
      };
    },
    version() {
      listen(signals);
      // Until notices arrive, every question is answered by reading.
      asked += isListening ? 0 : 1;
      return `${heard} ${asked} ${Math.floor(performance.now() / POLL_AGAIN_MS)}`;
    },
    async close() {
      isClosed = true;
      clearInterval(poll);
      if (due !== undefined) {
        clearTimeout(due);
        send();
      }
      await sending;
      // Without an answer the socket stays open, and does not keep the process.
      await Promise.race([client?.end().catch(() => {}), delay(NOTICE_MS, undefined, { ref: false })]);
    },
  };
}
