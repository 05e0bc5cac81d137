/** The health of a worker: what a snapshot of its state means, and the HTTP endpoint that says so to a service manager or load balancer. */
import { once } from "node:events";
import { createServer } from "node:http";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry } from "@holdfast/core/dispatch";
import type { RunStatus } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { WorkerLoad } from "../telemetry.ts";

/** What a worker does at present. Its loop writes it; the health endpoint and the metrics read it. */
export interface WorkerActivity extends WorkerLoad {
  /** Its name in the queue; without a queue, host and process. */
  worker: string;
  /** null: no limit. */
  slots: number | null;
  busy: number;
  draining: boolean;
  /** When it last looked at its runs, by `performance.now()`. null: it has only begun. */
  lookedAt: number | null;
  /** Why repositories could not be read then. */
  problems: readonly string[];
  runs: WorkerLoad["runs"];
  entries: WorkerLoad["entries"];
}

export function newActivity(): WorkerActivity {
  const worker = `${hostname()}-${process.pid}`;
  return { worker, slots: null, busy: 0, draining: false, lookedAt: null, problems: [], runs: {}, entries: {} };
}

/** A status without a run is counted too: a metric that is not sent keeps its last value. */
export function countStatuses(statuses: readonly RunStatus[]): WorkerLoad["runs"] {
  const counts: Record<string, number> = { running: 0, queued: 0, waiting: 0, paused: 0, crashed: 0, saved: 0 };
  for (const { kind } of statuses) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** `now`: by the clock of the store. */
export function countEntries(entries: readonly Entry[], now: number): WorkerLoad["entries"] {
  const counts = { waiting: 0, due: 0, active: 0 };
  for (const { state, wakeAt } of entries)
    counts[state === "waiting" && wakeAt !== null && wakeAt <= now ? "due" : state] += 1;
  return counts;
}

export interface WorkerSnapshot {
  /** Name of the worker, for lists. */
  readonly worker: string;
  readonly now: number;
  /** When it last looked at its runs or its queue, and how often it should. null: it has only begun. */
  readonly lookedAt: number | null;
  readonly lookEveryMs: number;
  /** Age of its heartbeat in the dispatch, by the clock of the database. null: it is in no dispatch. */
  readonly heartbeatAgeMs: number | null;
  /** Why it cannot read its queue or its stores. */
  readonly problems: readonly string[];
  /** null: no limit. */
  readonly slots: number | null;
  readonly busy: number;
  /** It takes nothing new, and leaves when its work has returned. */
  readonly draining: boolean;
}

export interface Health {
  readonly status: 200 | 503;
  readonly body: Omit<WorkerSnapshot, "now" | "lookedAt" | "lookEveryMs" | "problems"> & {
    readonly healthy: boolean;
    readonly lookAgeMs: number | null;
    readonly problems: readonly string[];
  };
}

/** From then on other workers take its entries (docs/dispatch.md). */
const DEAD_MS = 30_000;
/** So many looks may be late: one look at many repositories takes longer than the time between two. */
const LATE_LOOKS = 8;

/** A worker that drains is healthy: ending it would end its work. */
export function healthOf(snapshot: WorkerSnapshot): Health {
  const { now, lookedAt, lookEveryMs, problems: found, ...shown } = snapshot;
  const { heartbeatAgeMs } = shown;
  const lookAgeMs = lookedAt === null ? null : Math.max(0, Math.round(now - lookedAt));
  const problems = [
    ...found,
    ...(heartbeatAgeMs !== null && heartbeatAgeMs > DEAD_MS
      ? [`the last heartbeat was ${Math.round(heartbeatAgeMs / 1000)} s ago`]
      : []),
    ...(lookAgeMs !== null && !shown.draining && lookAgeMs > LATE_LOOKS * lookEveryMs
      ? [`the last look at the runs was ${Math.round(lookAgeMs / 1000)} s ago`]
      : []),
  ];
  const healthy = problems.length === 0;
  return { status: healthy ? 200 : 503, body: { ...shown, healthy, lookAgeMs, problems } };
}

/** `probe` asks the databases of a queue. A worker that drains needs no answer of theirs to be healthy. */
export async function takeSnapshot(
  { slots, busy, draining, worker, lookedAt, problems }: WorkerActivity,
  lookEveryMs: number,
  probe: ((worker: string) => Promise<Pick<WorkerSnapshot, "heartbeatAgeMs" | "problems">>) | null,
): Promise<WorkerSnapshot> {
  const probed = probe === null || draining ? { heartbeatAgeMs: null, problems: [] } : await probe(worker);
  return {
    worker,
    now: performance.now(),
    lookedAt,
    lookEveryMs,
    heartbeatAgeMs: probed.heartbeatAgeMs,
    problems: draining ? [] : [...problems, ...probed.problems],
    slots,
    busy,
    draining,
  };
}

/** How long an answer of the endpoint waits for databases. */
const ANSWER_MS = 2000;

/**
 * Asks a database, for a caller who waits no longer than a short time. After that time the question stays open, and later callers wait for the
 * same one: a database that does not answer gets one question, however often its state is asked for.
 */
export function askInTime<T>(ask: () => Promise<T>, limitMs = ANSWER_MS): () => Promise<T> {
  let open: Promise<T> | null = null;
  return async () => {
    open ??= ask().finally(() => (open = null));
    const late = sleep(limitMs, undefined, { ref: false }).then(() => {
      throw new Error(`no answer within ${limitMs / 1000} s`);
    });
    return await Promise.race([open, late]);
  };
}

export interface HealthAddress {
  readonly host: string;
  readonly port: number;
}

/** `PORT`, `HOST:PORT` or `[IPV6]:PORT`. Without a host: this machine alone. Port 0 chooses a free one. */
export function parseHealthAddress(given: string): HealthAddress {
  const [, ipv6, name, digits] = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+)):)?(\d{1,5})$/.exec(given) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535)
    throw usageError(
      `${JSON.stringify(given)} is no address for --health`,
      "Give a port, or HOST:PORT: --health 8080.",
    );
  return { host: ipv6 ?? name ?? "127.0.0.1", port };
}

export interface HealthEndpoint extends AsyncDisposable {
  readonly url: string;
}

/** Answers `GET /health` until it is disposed. `snapshot` is called for each request. USAGE if the port is taken. */
export async function serveHealth(
  { host, port }: HealthAddress,
  snapshot: () => WorkerSnapshot | Promise<WorkerSnapshot>,
): Promise<HealthEndpoint> {
  const server = createServer((request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(request.method === "HEAD" ? undefined : `${JSON.stringify(body)}\n`);
    };
    if (request.url !== "/health") return answer(404, { error: "there is only /health" });
    if (request.method !== "GET" && request.method !== "HEAD") return answer(405, { error: "only GET" });
    Promise.resolve()
      .then(snapshot)
      .then(healthOf)
      .then(
        ({ status, body }) => answer(status, body),
        (error: unknown) => answer(503, { healthy: false, problems: [String(error)] }),
      );
  });
  // A client that sends nothing holds no connection for ever.
  server.requestTimeout = 5000;
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (cause) {
    throw new HoldfastError({
      code: "USAGE",
      message: `The health endpoint cannot listen at ${host}:${port}: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Choose another address with --health.",
      cause,
    });
  }
  const address = server.address();
  const taken = typeof address === "object" && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/health`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
