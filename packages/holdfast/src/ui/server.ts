/** The page server: checks each request, answers queries about runs from open stores, and serves the built page from memory. */
import { readFileSync, readdirSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { extname, join } from "node:path";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { setTimeout as sleep } from "node:timers/promises";
import type { Boot, Failure, InboxItem, LiveEvent, Session } from "@holdfast/dashboard/api";
import { asRecord } from "@holdfast/core/json";
import { RUN_ID } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { ChangesReader } from "./changes.ts";
import { type LiveEvents, MAX_STREAMS, type Sent, parseTopics } from "./live.ts";
import { parseAction } from "./actions.ts";
import { readComparison, readReport } from "./report.ts";
import type { Plans } from "./plans.ts";
import { EXIT_OF, type Exit } from "../cli/exit.ts";
import { toHoldfastError } from "../cli/output/terminal.ts";
import {
  type OpenRepository,
  type Repositories,
  type RunsQuery,
  problemOf,
  readRepositories,
  readRuns,
} from "./repositories.ts";
import type { NamedRepository } from "../repository-registry.ts";
import {
  type KnownFindings,
  readCheckpoints,
  readEffects,
  readEntries,
  readEntry,
  readInbox,
  readLog,
  readLogs,
  readRunPage,
  readTimeline,
} from "./run-page.ts";
import { HEADERS, MAX_BODY, RateLimit, type Sessions, isSameSecret, ownHosts, refuseRequest } from "./session.ts";

export interface ServerParams {
  readonly repositories: Repositories;
  readonly sessions: Sessions;
  /** Names of this server in addresses. Known once it listens. */
  readonly hosts: () => ReadonlySet<string>;
  readonly files: ReadonlyMap<string, PageFile>;
  readonly version: string;
  readonly readOnly: boolean;
  readonly live: LiveEvents;
  readonly plans: Plans;
  /** Known only to processes of this user. Gives a new code for a browser. */
  readonly secret: string;
}

export interface PageFile {
  readonly type: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".ico": "image/x-icon",
};

/** The built page, by address. Read once: no request reaches the file system. Empty: this program was built without a page. */
export function readPage(folder = join(import.meta.dirname, "ui")): ReadonlyMap<string, PageFile> {
  const files = new Map<string, PageFile>();
  const walk = (directory: string, prefix: string): void => {
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) walk(path, `${prefix}${entry.name}/`);
      const type = TYPES[extname(entry.name)];
      if (entry.isFile() && type !== undefined)
        files.set(`${prefix}${entry.name}`, { type, body: new Uint8Array(readFileSync(path)) });
    }
  };
  try {
    walk(folder, "/");
  } catch {
    // Tests run the sources, which have no built page.
  }
  return files;
}

/** How long a code in an address may be used: one that a browser opens at once, and one that the user copies. */
export const CODE_MS = { opened: 60_000, printed: 10 * 60_000 } as const;

export function createApp(params: ServerParams): Hono {
  const app = new Hono();
  const { repositories, sessions } = params;
  const findings: KnownFindings = (row) => params.plans.findings(row);

  app.use("*", async (context, next) => {
    for (const [name, value] of Object.entries(HEADERS)) context.header(name, value);
    context.header("Cache-Control", "no-store");
    const { req } = context;
    const refused = refuseRequest(
      { method: req.method, path: req.path, url: req.url, header: (name) => req.header(name) },
      params.hosts(),
    );
    if (refused !== null) return refuse(context, refused.status, refused.message);
    return await next();
  });
  app.onError((error, context) => {
    const [, key] = /^\/api\/runs\/([^/]+)\//.exec(context.req.path) ?? [];
    return failure(
      context,
      error,
      repositories.list().find((one) => one.key === key),
    );
  });

  // Codes and secrets have 256 bits, so guesses need no limit. One would let any program of this machine keep the user out.
  app.post("/api/session", async (context) => {
    const { code } = asRecord(await bodyOf(context));
    const token = typeof code === "string" ? sessions.trade(code) : null;
    if (token === null)
      return refuse(context, 401, "The code was used already, or is too old. Run `holdfast ui` again.");
    return context.json({ token } satisfies Session);
  });
  // Another `holdfast ui` of the same user, which can read the state file.
  app.post("/api/code", async (context) => {
    const { secret, printed } = asRecord(await bodyOf(context));
    if (typeof secret !== "string" || !isSameSecret(secret, params.secret)) return refuse(context, 401, "No.");
    return context.json({ code: sessions.code(printed === true ? CODE_MS.printed : CODE_MS.opened) });
  });

  app.use("/api/*", async (context, next) => {
    if (!sessions.allows(context.req.header("authorization")))
      return refuse(context, 401, "There is no session. Open the address that `holdfast ui` prints.");
    return await next();
  });
  app.get("/api/boot", async (context) => {
    const { version, readOnly } = params;
    const asOf = new Date(repositories.now()).toISOString();
    const boot: Boot = { version, readOnly, asOf, repositories: await readRepositories(repositories) };
    return context.json(boot);
  });
  app.get("/api/runs", async (context) => {
    const query = runsQuery(context);
    const page = await readRuns(repositories, query);
    return context.json({ ...page, more: page.more && query.limit < MAX_RUNS });
  });
  app.get("/api/inbox", async (context) => {
    const inbox = await readInbox(repositories, findings);
    return context.json(params.readOnly ? { ...inbox, items: inbox.items.map(withoutOptions) } : inbox);
  });
  if (!params.readOnly) addActionRoutes(app, params);
  const changes = new ChangesReader(repositories);
  app.get("/api/diff", async (context) => context.json(await changes.changes(...ends(context))));
  app.get("/api/diff/file", async (context) =>
    context.json(await changes.file(...ends(context), textIn(context, "path"))),
  );
  app.get("/api/compare", async (context) => {
    const page = await readComparison(repositories, textIn(context, "runs"));
    return context.json(params.readOnly ? { ...page, choose: [] } : page);
  });
  app.get("/api/events", (context) => streamEvents(context, params.live));
  addRunRoutes(app, { repositories, changes, findings, readOnly: params.readOnly });

  app.all("/api/*", (context) => refuse(context, 404, "There is no such address."));
  app.get("*", (context) => servePage(context, params.files));
  return app;
}

/** With --read-only a page shows what waits, and offers nothing that it cannot do. */
function withoutOptions(item: InboxItem): InboxItem {
  return { ...item, options: [] };
}

/** With --read-only these routes do not exist. */
function addActionRoutes(app: Hono, { plans, repositories }: ServerParams): void {
  const writes = new RateLimit(10, () => repositories.now());
  app.use("/api/plans/*", async (context, next) =>
    writes.allows() ? await next() : refuse(context, 429, "Too many requests: wait a second."),
  );
  app.post("/api/plans", async (context) => context.json(await plans.make(parseAction(await bodyOf(context)))));
  app.post("/api/plans/:id/apply", async (context) => {
    const { digest, key } = asRecord(await bodyOf(context));
    if (typeof digest !== "string" || typeof key !== "string" || !/^[\w-]{8,100}$/.test(key))
      throw usageError("Applying a plan needs its digest and a key");
    const result = await plans.apply(context.req.param("id"), { digest, key });
    return context.json(result, result.kind === "changed" ? 409 : 200);
  });
}

/** Server-sent events. Each stream begins with a `resync`, once every later change is noticed: a page that fetches then misses nothing. */
function streamEvents(context: Context, live: LiveEvents): Response {
  if (live.streams >= MAX_STREAMS) return refuse(context, 429, "Too many pages are open.");
  const topics = parseTopics(context.req.query("topics") ?? "runs");
  // Nothing between the server and the browser may collect events before it passes them on.
  context.header("X-Accel-Buffering", "no");
  return streamSSE(context, async (stream) => {
    let waiting = 0;
    const send = ({ event: { event }, text }: Sent): void => {
      waiting += 1;
      // A page that does not read must not fill the memory.
      if (waiting > MAX_WAITING) return stream.abort();
      void stream.writeSSE({ event, data: text }).finally(() => (waiting -= 1));
    };
    /** Only to this page. */
    const tell = (event: LiveEvent): void => send({ event, text: JSON.stringify(event.data) });
    const stop = live.listen({ topics, send });
    const end = new Promise<void>((resolve) => stream.onAbort(resolve));
    try {
      await Promise.race([live.watching, end]);
      tell({ event: "resync", data: { reason: "the stream begins" } });
      for (let isOpen = true; isOpen;) {
        tell({ event: "ping", data: { asOf: new Date().toISOString() } });
        isOpen = await Promise.race([sleep(PING_MS, true, { ref: false }), end.then(() => false)]);
      }
    } finally {
      stop();
    }
  });
}

const PING_MS = 15_000;
const MAX_WAITING = 1000;

function ends(context: Context): [string, string] {
  return [textIn(context, "a"), textIn(context, "b")];
}

function textIn(context: Context, name: string): string {
  const text = context.req.query(name) ?? "";
  if (text === "" || text.includes("\0")) throw usageError(`This address needs ${name}`);
  return text;
}

function addRunRoutes(
  app: Hono,
  params: {
    readonly repositories: Repositories;
    readonly changes: ChangesReader;
    readonly findings: KnownFindings;
    readonly readOnly: boolean;
  },
): void {
  const { repositories, changes, findings, readOnly } = params;
  const at = "/api/runs/:repository/:run";
  const now = (): number => repositories.now();
  // Both names pass their allow-lists before they reach a store.
  const get = (path: string, answer: (opened: OpenRepository, run: string, context: Context) => Promise<unknown>) =>
    app.get(`${at}${path}`, async (context) => {
      const run = context.req.param("run") ?? "";
      if (!RUN_ID.test(run)) throw usageError("This does not name a run");
      const named = repositories.named(context.req.param("repository") ?? "");
      const read = async (): Promise<unknown> => await answer(await repositories.openNamed(named), run, context);
      return context.json((await repositories.answer(named, read)) as object);
    });
  get("", async (opened, run) => {
    const page = await readRunPage(opened, run, { now: now(), findings });
    if (!readOnly) return page;
    return { ...page, actions: [], undo: null, inbox: page.inbox === null ? null : withoutOptions(page.inbox) };
  });
  get("/timeline", (opened, run) => readTimeline(opened, run, now()));
  get("/entries", (opened, run, context) =>
    readEntries(opened, run, {
      after: numberIn(context, "after"),
      before: numberIn(context, "before"),
      limit: Math.min(numberIn(context, "limit") ?? 200, 1000),
    }),
  );
  get("/entries/:number", (opened, run, context) => readEntry(opened, run, parameter(context, "number")));
  get("/checkpoints", (opened, run, context) =>
    readCheckpoints(opened, run, {
      before: numberIn(context, "before"),
      limit: Math.min(numberIn(context, "limit") ?? 50, 500),
    }),
  );
  get("/checkpoints/:number", async (opened, run, context) => {
    const page = await changes.checkpoint(opened, run, parameter(context, "number"));
    return readOnly ? { ...page, actions: [] } : page;
  });
  get("/checkpoints/:number/transcript", (opened, run, context) =>
    changes.transcript(opened, { run, sequence: parameter(context, "number"), ...rangeIn(context) }),
  );
  get("/report", (opened, run) => readReport(opened, run, { changes, now: now(), findings }));
  get("/effects", (opened, run) => readEffects(opened, run));
  get("/logs", (opened, run) => readLogs(opened, run));
  get("/logs/:number", (opened, run, context) =>
    readLog(opened, run, { number: parameter(context, "number"), ...rangeIn(context) }),
  );
}

/** More runs are found by a filter. Their rows are about 2 MB. */
const MAX_RUNS = 2000;

function runsQuery(context: Context): RunsQuery {
  const { req } = context;
  return {
    repository: req.query("repo") ?? null,
    statuses: new Set((req.query("status") ?? "").split(",").filter((word) => word !== "")),
    workflow: req.query("workflow") ?? null,
    text: (req.query("q") ?? "").trim().toLowerCase(),
    limit: Math.min(numberIn(context, "limit") ?? 50, MAX_RUNS),
  };
}

/** null: it is absent. Throws USAGE for anything but a whole number from 0. */
function numberIn(context: Context, name: string): number | null {
  const text = context.req.query(name);
  if (text === undefined) return null;
  if (!/^\d{1,15}$/.test(text)) throw usageError(`${name} must be a whole number`);
  return Number(text);
}

function parameter(context: Context, name: string): number {
  const text = context.req.param(name) ?? "";
  if (!/^[1-9]\d{0,14}$/.test(text)) throw usageError("This address needs a number from 1");
  return Number(text);
}

const MAX_RANGE = 256 * 1024;

/** A negative offset counts from the end. */
function rangeIn(context: Context): { readonly offset: number; readonly limit: number } {
  const offset = context.req.query("offset") ?? "0";
  if (!/^-?\d{1,15}$/.test(offset)) throw usageError("offset must be a whole number");
  return { offset: Number(offset), limit: Math.min(numberIn(context, "limit") ?? 64 * 1024, MAX_RANGE) };
}

/** The body of a POST, at most MAX_BODY bytes whatever its header says. Throws USAGE. */
async function bodyOf(context: Context): Promise<unknown> {
  const bytes = await context.req.arrayBuffer();
  if (bytes.byteLength > MAX_BODY) throw usageError("The request is too large");
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw usageError("The request is not JSON");
  }
}

type Status = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 414 | 415 | 421 | 423 | 429 | 500;

const STATUS_OF: Partial<Record<Exit, Status>> = { usage: 400, nothing: 404, needs_you: 409, held: 423 };

function failure(context: Context, thrown: unknown, repository?: NamedRepository): Response {
  const error = toHoldfastError(thrown);
  const status = error.code === "RUN_EXISTS" ? 409 : (STATUS_OF[EXIT_OF[error.code]] ?? 500);
  return context.json({ error: problemOf(error, repository) } satisfies Failure, status);
}

function refuse(context: Context, status: Status, message: string): Response {
  const error = new HoldfastError({ code: "USAGE", message });
  return context.json({ error: problemOf(error) } satisfies Failure, status);
}

/** An address without a file is a state of the page, which reads it. */
function servePage(context: Context, files: ReadonlyMap<string, PageFile>): Response {
  const found = files.get(context.req.path);
  if (found !== undefined && context.req.path !== "/index.html") {
    context.header("Cache-Control", "public, max-age=31536000, immutable");
    return context.body(found.body, 200, { "Content-Type": found.type });
  }
  const index = files.get("/index.html");
  if (index === undefined || extname(context.req.path.split("/").at(-1) ?? "") === ".js")
    return context.text(index === undefined ? "This program was built without its page.\n" : "Not found.\n", 404);
  return context.body(index.body, 200, { "Content-Type": index.type });
}

export interface RunningServer extends AsyncDisposable {
  readonly port: number;
  /** Without a path: `http://127.0.0.1:4680`. */
  readonly origin: string;
}

/** Any program of this machine can connect: one that sends slowly, or nothing, is cut off. */
const LIMITS = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5000,
};
const MAX_CONNECTIONS = 256;
/** Connections that have shown no token. Less than MAX_CONNECTIONS, so that they never keep a page out. */
const MAX_STRANGERS = 128;

type Allows = (authorization: string | undefined) => boolean;

/** Of too many connections that have shown no token, the oldest is closed: whether it does not send, does not read, or waits. */
function dropStrangers(server: Server, allows: Allows): void {
  const strangers = new Set<Socket>();
  const add = (socket: Socket): void => {
    if (socket.destroyed) return;
    strangers.add(socket);
    const [oldest] = strangers;
    if (strangers.size > MAX_STRANGERS) oldest?.destroy();
  };
  server.on("connection", (socket) => {
    add(socket);
    socket.once("close", () => strangers.delete(socket));
  });
  server.on("request", ({ socket, headers }, response) => {
    if (!allows(headers.authorization)) return;
    strangers.delete(socket);
    response.once("close", () => add(socket));
  });
}

/** Listens. `port` null: the usual one, or any other if it is taken. */
export async function startServer(params: {
  readonly app: (hosts: () => ReadonlySet<string>) => Pick<Hono, "fetch">;
  readonly allows: Allows;
  readonly address: string;
  readonly port: number | null;
  readonly limits?: Partial<typeof LIMITS>;
}): Promise<RunningServer> {
  const { address, limits } = params;
  let hosts: ReadonlySet<string> = new Set();
  const app = params.app(() => hosts);
  const server = createAdaptorServer({
    fetch: app.fetch,
    hostname: address,
    serverOptions: { ...LIMITS, ...limits },
  });
  server.maxConnections = MAX_CONNECTIONS;
  dropStrangers(server as Server, params.allows);
  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, address, () => {
        server.off("error", reject);
        resolve();
      });
    });
  try {
    await listen(params.port ?? USUAL_PORT);
  } catch (error) {
    const isTaken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
    if (params.port !== null || !isTaken) throw notListening(error, address, params.port ?? USUAL_PORT);
    await listen(0);
  }
  const { port } = server.address() as AddressInfo;
  hosts = ownHosts(address, port);
  return {
    port,
    origin: `http://${address.includes(":") ? `[${address}]` : address}:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if ("closeAllConnections" in server) server.closeAllConnections();
      await closed;
    },
  };
}

const USUAL_PORT = 4680;

function notListening(cause: unknown, address: string, port: number): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError({
    code: "IO_FAILED",
    message: `The page server cannot listen on ${address}:${port}: ${why}`,
    hint: "Choose another port with --port, or leave it out.",
    cause,
  });
}
