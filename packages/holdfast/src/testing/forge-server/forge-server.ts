import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Refused, type Handler, type Incoming, type Reply } from "./exchange.ts";
import { FaultTable, type Fault } from "./faults.ts";
import { serveGit } from "./git-backend.ts";

/** A loopback forge: an HTTP server on a port and on a socket, with faults that a test sets, and a log of what was asked. */
export interface ForgeServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** The same server on a socket, for programs that insist on a host of their own. */
  readonly socket: string;
  readonly faults: FaultTable;
  /** `METHOD /path?query` of each request that was acted upon or refused, in order. Those for git are left out. */
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
  // One request after the other, as if each were a transaction.
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
      // Answered while the client is still writing, it may see a broken pipe and no answer.
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
    // The push is taken to its end, and only what git would say of it is swallowed.
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
