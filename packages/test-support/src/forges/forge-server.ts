// The common base of the loopback forges: an HTTP server with faults, routes, accounts, and git repositories over smart HTTP.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { runProcess } from "@holdfast/platform/subprocess";

/** A loopback forge: an HTTP server on a port and on a socket, with faults that a test sets, and a log of the requests. */
export interface ForgeServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** The same server on a socket, for programs that require a fixed host name. */
  readonly socket: string;
  readonly faults: FaultTable;
  /** `METHOD /path?query` of each request that was handled or refused, in order. Git requests are left out. */
  readonly asked: string[];
  dispose(): Promise<void>;
}

export async function startForgeServer(params: {
  readonly handle: Handler;
  /** The bare repository behind a path such as `owner/name`; null: there is none. */
  readonly bareOf: (name: string) => string | null;
}): Promise<ForgeServer> {
  const faults = new FaultTable();
  const asked: string[] = [];
  // Handles one request after the other, as if each were a transaction.
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = turn.then(work, work);
    turn = next.catch(() => undefined);
    return next;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://loopback");
    const line = `${request.method ?? "GET"} ${url.pathname}${url.search}`;
    const fault = faults.take(line);
    const git = /^\/(.+?)(?:\.git)?(\/info\/refs|\/git-upload-pack|\/git-receive-pack)$/.exec(url.pathname);
    const late = fault?.effect.kind === "late" ? fault.effect.until : null;
    if (fault?.when === "before" && late === null) {
      // If the server answers while the client still writes, the client may see a broken pipe and no answer.
      if (fault.effect.kind === "answer") for await (const _ of request) continue;
      return await spoil(response, fault, { status: 200, body: {} });
    }
    if (git !== null) return serveRepository({ request, response, url, git, fault, bareOf: params.bareOf });
    const incoming = await readIncoming(request, url);
    await late;
    asked.push(line);
    const reply = await inTurn(() => params.handle(incoming)).catch((error: unknown) => {
      if (error instanceof Refused) return error.reply;
      return { status: 500, body: { message: String(error) } };
    });
    if (fault !== null && late === null) return await spoil(response, fault, reply);
    send(response, reply);
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch(() => request.socket.destroy());
  };
  const folder = mkdtempSync(join(tmpdir(), "holdfast-forge-"));
  const socket = join(folder, "forge.sock");
  const [tcp, unix] = [createServer(listener), createServer(listener)];
  await Promise.all([listen(tcp, { port: 0, host: "127.0.0.1" }), listen(unix, { path: socket })]);
  const address = tcp.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    socket,
    faults,
    asked,
    async dispose() {
      await Promise.all([close(tcp), close(unix)]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function serveRepository(params: {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly git: RegExpExecArray;
  readonly fault: Fault | null;
  readonly bareOf: (name: string) => string | null;
}): void {
  const { request, response, url, git, fault } = params;
  const [, name = "", rest = ""] = git;
  const bare = params.bareOf(name);
  if (bare === null) return send(response, { status: 404, body: "Not Found" });
  if (fault !== null) {
    // The push completes, and only git's answer is dropped.
    response.write = () => true;
    const end = response.end.bind(response);
    response.end = () => {
      if (fault.effect.kind === "hang") return response;
      request.socket.destroy();
      return end();
    };
    response.writeHead = () => response;
  }
  serveGit({ request, response, bare, rest, query: url.search.slice(1) });
}

async function readIncoming(request: IncomingMessage, url: URL): Promise<Incoming> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString("utf8");
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]),
  );
  const host = request.headers.host ?? "127.0.0.1";
  return {
    method: request.method ?? "GET",
    path: url.pathname,
    query: url.searchParams,
    headers,
    body: text === "" ? undefined : JSON.parse(text),
    origin: host.startsWith("127.0.0.1") ? `http://${host}` : `https://${host}`,
  };
}

async function spoil(response: ServerResponse, { effect }: Fault, reply: Reply): Promise<void> {
  switch (effect.kind) {
    case "answer":
      return send(response, { status: effect.status, headers: effect.headers ?? {}, body: effect.body });
    case "drop":
      response.socket?.destroy();
      return;
    case "hang":
    case "late":
      return;
    case "cut": {
      const text = JSON.stringify(reply.body ?? {});
      response.writeHead(reply.status, { "content-type": "application/json", "content-length": text.length + 10 });
      response.write(text.slice(0, text.length / 2), () => response.socket?.destroy());
    }
  }
}

function send(response: ServerResponse, reply: Reply): void {
  const { status, body } = reply;
  const isText = typeof body === "string";
  const type = isText ? "text/plain; charset=utf-8" : "application/json; charset=utf-8";
  response.writeHead(status, { ...(body === undefined ? {} : { "content-type": type }), ...reply.headers });
  response.end(body === undefined ? undefined : isText ? body : JSON.stringify(body));
}

function listen(server: Server, at: { port: number; host: string } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(at, resolve);
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** A request as the routes of a loopback forge see it: parsed, and without its transport. */
export interface Incoming {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
  /** The origin that the client addresses: scheme and host. */
  readonly origin: string;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text is sent as it is, anything else as JSON; undefined: no body. */
  readonly body?: unknown;
}

export type Handler = (incoming: Incoming) => Promise<Reply>;

/** Thrown in a route to answer with a refusal. */
export class Refused extends Error {
  readonly reply: Reply;

  constructor(reply: Reply) {
    super(`refused with ${reply.status}`);
    this.reply = reply;
  }
}

/** The functions below read fields of a JSON body and check their types. */
export function fieldsOf(body: unknown): Readonly<Record<string, unknown>> {
  return typeof body === "object" && body !== null && !Array.isArray(body) ? { ...body } : {};
}

export function textOf(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

export function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

/** One path of a loopback forge's API. `Context`: the subject of the request, found before. */
export interface Route<Context> {
  readonly method: string;
  readonly path: RegExp;
  run(call: RoutedCall<Context>): Promise<Reply>;
}

export type RoutedCall<Context> = Context & {
  readonly incoming: Incoming;
  /** The match of the route's path. */
  readonly match: RegExpExecArray;
};

/** Null: no route matches. */
export async function follow<Context>(
  routes: readonly Route<Context>[],
  rest: string,
  context: Context & { readonly incoming: Incoming },
): Promise<Reply | null> {
  for (const route of routes) {
    const match = route.method === context.incoming.method ? route.path.exec(rest) : null;
    if (match !== null) return await route.run({ ...context, match });
  }
  return null;
}

/** One page of a list, with the `Link` header for the next one: at most 100 items per page, 30 by default. */
export function pageOf(incoming: Incoming, all: readonly unknown[]): { readonly items: readonly unknown[] } & Reply {
  const number = (name: string, otherwise: number): number =>
    Math.max(1, Number(incoming.query.get(name) ?? otherwise) || otherwise);
  const size = Math.min(100, number("per_page", 30));
  const page = number("page", 1);
  const last = Math.max(1, Math.ceil(all.length / size));
  const link = (to: number, rel: string): string => {
    const query = new URLSearchParams(incoming.query);
    query.set("page", String(to));
    return `<${incoming.origin}${incoming.path}?${query}>; rel="${rel}"`;
  };
  const links = page < last ? [link(page + 1, "next"), link(last, "last")] : [];
  const items = all.slice((page - 1) * size, page * size);
  return { status: 200, items, body: items, headers: links.length === 0 ? {} : { link: links.join(", ") } };
}

/** A fault for matching requests, and how often. `after`: the server has already acted, and the client does not learn of it. */
export interface Fault {
  /** Tested against `METHOD /path?query`. */
  readonly match: RegExp;
  readonly times: number;
  readonly when: "before" | "after";
  readonly effect:
    | {
        readonly kind: "answer";
        readonly status: number;
        readonly headers?: Readonly<Record<string, string>>;
        readonly body?: unknown;
      }
    /** The connection ends without an answer. */
    | { readonly kind: "drop" }
    /** The answer never comes. */
    | { readonly kind: "hang" }
    /** The request is accepted, and handled only after `until`, whether or not the client is still connected. */
    | { readonly kind: "late"; readonly until: Promise<void> }
    /** The answer stops in the middle of its body. */
    | { readonly kind: "cut" };
}

/** Faults in the order in which they were set; matching requests use them up. */
class FaultTable {
  #faults: { fault: Fault; left: number }[] = [];

  set(...faults: readonly Fault[]): void {
    this.#faults.push(...faults.map((fault) => ({ fault, left: fault.times })));
  }

  clear(): void {
    this.#faults = [];
  }

  /** How many requests are still to fail. */
  get left(): number {
    return this.#faults.reduce((sum, { left }) => sum + left, 0);
  }

  take(request: string): Fault | null {
    const found = this.#faults.find(({ fault, left }) => left > 0 && fault.match.test(request));
    if (found === undefined) return null;
    found.left -= 1;
    return found.fault;
  }
}

/** The accounts of a loopback forge, and its clock. */
export class Accounts {
  /** The owner of each token. */
  readonly tokens = new Map<string, { readonly login: string }>();
  #time = Date.UTC(2026, 2, 1);

  /** Each action has a different time, so that "newest first" is never a tie. */
  now(): string {
    this.#time += 1000;
    return new Date(this.#time).toISOString().replace(/\.\d+Z$/, "Z");
  }

  /** `refusal`: in the forge's own words. */
  requireLogin({ headers }: Incoming, refusal: string): string {
    const [, bearer] = /^(?:token|bearer) (.+)$/i.exec(headers["authorization"] ?? "") ?? [];
    const known = this.tokens.get(bearer ?? headers["private-token"] ?? "");
    if (known !== undefined) return known.login;
    throw new Refused({ status: 401, body: { message: refusal } });
  }
}

/** Git's own smart HTTP server as a CGI program on one bare repository: fetches and pushes are real. */
function serveGit(params: {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly bare: string;
  /** The path after the repository: `/info/refs`. */
  readonly rest: string;
  readonly query: string;
}): void {
  const { request, response, bare } = params;
  const child = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: dirname(bare),
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "http.receivepack",
      GIT_CONFIG_VALUE_0: "true",
      PATH_INFO: `/${basename(bare)}${params.rest}`,
      QUERY_STRING: params.query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      CONTENT_LENGTH: request.headers["content-length"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      REMOTE_USER: "user",
      REMOTE_ADDR: "127.0.0.1",
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.stdin.on("error", () => undefined);
  request.pipe(child.stdin);
  let head: Buffer | null = Buffer.alloc(0);
  child.stdout.on("data", (chunk: Buffer) => {
    if (head === null) {
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    const { status, headers } = parseHead(head.subarray(0, end).toString("latin1"));
    response.writeHead(status, headers);
    response.write(head.subarray(end + 4));
    head = null;
  });
  child.on("close", () => {
    if (head !== null) response.writeHead(500);
    response.end();
  });
}

function parseHead(text: string): { readonly status: number; readonly headers: Readonly<Record<string, string>> } {
  const pairs = text.split("\r\n").flatMap((line) => {
    const at = line.indexOf(":");
    return at === -1 ? [] : [[line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()] as const];
  });
  const { status = "200", ...headers } = Object.fromEntries(pairs);
  return { status: Number.parseInt(status, 10), headers };
}

/** What a forge does with its bare repository: it reads branches, merges in git objects only, and moves a branch by compare-and-set. */
export class BareRepository {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async tip(branch: string): Promise<string | null> {
    const found = await this.#git(["rev-parse", "--verify", "--quiet", `refs/heads/${branch}^{commit}`]);
    return found.code === 0 ? found.text : null;
  }

  async head(): Promise<string> {
    return (await this.#git(["symbolic-ref", "--short", "HEAD"])).text;
  }

  async hasCommit(commit: string): Promise<boolean> {
    return /^[0-9a-f]{40}$/.test(commit) && (await this.#git(["cat-file", "-e", `${commit}^{commit}`])).code === 0;
  }

  async isAncestor(ancestor: string, of: string): Promise<boolean> {
    return (await this.#git(["merge-base", "--is-ancestor", ancestor, of])).code === 0;
  }

  /** The merged tree; null: they conflict. */
  async mergedTree(base: string, head: string): Promise<string | null> {
    const merged = await this.#git(["merge-tree", "--write-tree", "--name-only", base, head]);
    return merged.code === 0 ? (merged.text.split("\n")[0] ?? null) : null;
  }

  async commitTree(tree: string, parents: readonly string[], message: string): Promise<string> {
    return (await this.#git(["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", message])).text;
  }

  /** False: the branch is no longer at `from`. */
  async move(branch: string, to: string, from: string): Promise<boolean> {
    return (await this.#git(["update-ref", `refs/heads/${branch}`, to, from])).code === 0;
  }

  /** Fetches a branch of a fork, as forges do for each pull request. */
  async fetchFrom(other: BareRepository, branch: string, ref: string): Promise<void> {
    await this.#git(["fetch", "-q", "--", other.path, `+refs/heads/${branch}:${ref}`]);
  }

  async #git(args: readonly string[]): Promise<{ readonly code: number | null; readonly text: string }> {
    const [name, mail] = ["Forge", "forge@example.invalid"];
    const env = {
      PATH: process.env["PATH"],
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_AUTHOR_NAME: name,
      GIT_AUTHOR_EMAIL: mail,
      GIT_COMMITTER_NAME: name,
      GIT_COMMITTER_EMAIL: mail,
    };
    const result = await runProcess({ command: "git", args: ["--git-dir", this.path, ...args], env });
    return { code: result.code, text: result.stdout.toString("utf8").trim() };
  }
}
