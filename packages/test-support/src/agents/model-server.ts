// A scripted model server on loopback, for tests with real agent programs.

import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { type JsonRecord, asRecord } from "@holdfast/core/json";
import { anthropic, gemini, openaiChat, openaiResponses } from "./model-protocols.ts";
import {
  type ModelFault,
  type ModelScript,
  type ModelStep,
  type ModelUsage,
  NO_USAGE,
  type Protocol,
  type Reply,
  type StreamEvent,
  chooseStep,
} from "./model-script.ts";

/**
 * Starts a model server on loopback that follows a script, for real agent programs: Anthropic Messages, OpenAI Responses and chat
 * completions, Gemini.
 *
 *   const server = await startModelServer({ rules: [{ match: /fix/, steps: [{ tool: … }, { text: "Done." }] }] });
 *   … point the program at server.url (OpenAI: `${server.url}/v1`) …
 *   await server.until((request) => request.place?.step === 1);   // a moment at which to kill it
 *   server.sent();                                                // token usage, as the model reported it
 *   await server.close();
 */
export async function startModelServer(script: ModelScript): Promise<ModelServer> {
  const state: State = { script, requests: [], other: [], plays: new Map(), watchers: new Set(), origin: "" };
  const server = createServer((request, response) => {
    // A client that disconnects in the middle is not an error of the server.
    response.on("error", () => undefined);
    void answer(state, request, response).catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("a server on loopback has a port");
  state.origin = `http://127.0.0.1:${address.port}`;
  return {
    url: state.origin,
    requests: state.requests,
    other: state.other,
    play(next) {
      state.script = next;
      state.plays.clear();
    },
    sent: (which = () => true) => sumUp(state.requests.filter(which)),
    until: (test) => untilRequest(state, test),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

export interface ModelServer {
  readonly url: string;
  /** In the order of arrival; each entry changes until its answer has ended. */
  readonly requests: readonly ModelRequest[];
  /** Method and path of all other requests. */
  readonly other: readonly string[];
  /** Replaces the script; counted faults start again. */
  play(script: ModelScript): void;
  /** Token usage that all answers have reported, including interrupted ones. */
  sent(which?: (request: ModelRequest) => boolean): ModelUsage;
  /** The first past or future request that passes the test; checked when a request arrives and when its answer ends. */
  until(test: (request: ModelRequest) => boolean): Promise<ModelRequest>;
  close(): Promise<void>;
}

interface ModelRequest {
  readonly protocol: Protocol["name"];
  readonly model: string;
  readonly hasTools: boolean;
  /** The user's last text. */
  readonly text: string;
  /** Null: no rule matched. */
  readonly place: { readonly rule: number; readonly step: number } | null;
  /** Usage reported so far: nothing at first, a part when the stream begins (Anthropic), all at its end. */
  usage: ModelUsage;
  readonly body: JsonRecord;
  readonly headers: IncomingMessage["headers"];
  /** "open": the answer has not ended; it stays open for "silent" and "hang". "gone": the program disconnected in the middle. */
  end: AnswerEnd | "open";
}

interface State {
  script: ModelScript;
  readonly requests: ModelRequest[];
  readonly other: string[];
  /** How often each step was requested. */
  readonly plays: Map<string, number>;
  readonly watchers: Set<(request: ModelRequest) => void>;
  origin: string;
}

const DEFAULT_USAGE: ModelUsage = { ...NO_USAGE, input: 100, output: 20 };
/** A global counter: answers of other servers in the same test must not have the same ids. */
let answers = 0;

async function answer(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", state.origin);
  const body = asRecord(parse(await readBody(request)));
  const protocol = protocolOf(url.pathname);
  if (protocol === undefined) {
    state.other.push(`${request.method ?? ""} ${url.pathname}`);
    return sendOther(url.pathname, response);
  }
  const conversation = protocol.read(body, url);
  const { step, place, text } = chooseStep(state.script, conversation);
  const key = JSON.stringify(place);
  const plays = state.plays.get(key) ?? 0;
  state.plays.set(key, plays + 1);
  const { model, stream, hasTools } = conversation;
  const spent = { ...DEFAULT_USAGE, ...step.usage };
  const { headers } = request;
  const entry: ModelRequest = {
    protocol: protocol.name,
    model,
    hasTools,
    text,
    place,
    usage: NO_USAGE,
    body,
    headers,
    end: "open",
  };
  state.requests.push(entry);
  notifyWatchers(state, entry);
  answers += 1;
  const fault = step.fault !== undefined && plays < (step.fault.times ?? Infinity) ? step.fault : null;
  const refused = fault?.kind === "refusal";
  const reply = {
    id: `${process.pid}_${answers}`,
    model,
    text: refused ? "" : (step.text ?? ""),
    tool: refused ? null : (step.tool ?? null),
    usage: spent,
    refused,
  };
  await sendAnswer(
    { protocol, reply, step, fault, stream, response, sse: isEventStream(protocol, url) },
    {
      ended(end) {
        entry.end = end;
        notifyWatchers(state, entry);
      },
      used(usage) {
        entry.usage = usage;
      },
    },
  );
}

function notifyWatchers(state: State, entry: ModelRequest): void {
  for (const watcher of state.watchers) watcher(entry);
}

function untilRequest(state: State, test: (request: ModelRequest) => boolean): Promise<ModelRequest> {
  const found = state.requests.find((request) => test(request));
  if (found !== undefined) return Promise.resolve(found);
  return new Promise((resolve) => {
    const watcher = (request: ModelRequest): void => {
      if (!test(request)) return;
      state.watchers.delete(watcher);
      resolve(request);
    };
    state.watchers.add(watcher);
  });
}

function protocolOf(path: string): Protocol | undefined {
  if (path.endsWith("/messages")) return anthropic;
  if (path.endsWith("/chat/completions")) return openaiChat;
  if (path.endsWith("/responses")) return openaiResponses;
  return /:(?:streamG|g)enerateContent$/.test(path) ? gemini : undefined;
}

/** Gemini streams a JSON array to clients that do not ask for events. */
function isEventStream(protocol: Protocol, url: URL): boolean {
  return protocol.name !== "gemini" || url.searchParams.get("alt") === "sse";
}

function sendOther(path: string, response: ServerResponse): void {
  const known = path.endsWith("/count_tokens")
    ? { input_tokens: 100 }
    : path.endsWith(":countTokens")
      ? { totalTokens: 100 }
      : path.endsWith("/models")
        ? { object: "list", data: [], models: [] }
        : null;
  response.writeHead(known === null ? 404 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify(known ?? { error: { type: "not_found_error", message: `nothing at ${path}` } }));
}

function sumUp(requests: readonly ModelRequest[]): ModelUsage {
  const sum = (of: keyof ModelUsage) => requests.reduce((total, { usage }) => total + usage[of], 0);
  return { input: sum("input"), cacheRead: sum("cacheRead"), cacheWrite: sum("cacheWrite"), output: sum("output") };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

type AnswerEnd = "whole" | "status" | "cut" | "silent" | "hang" | "gone";

interface AnswerNote {
  ended(end: AnswerEnd): void;
  used(usage: ModelUsage): void;
}

interface Answer {
  readonly protocol: Protocol;
  readonly reply: Reply;
  readonly step: ModelStep;
  readonly fault: ModelFault | null;
  readonly stream: boolean;
  /** As server-sent events; otherwise a JSON array. */
  readonly sse: boolean;
  readonly response: ServerResponse;
}

/** Records each event before its bytes go out, so that a reader of the bytes never finds an older state. */
async function sendAnswer(answer: Answer, note: AnswerNote): Promise<void> {
  const { ended } = note;
  const { step, fault, response, protocol, reply } = answer;
  await pause(step.delayMs ?? 0);
  if (fault?.kind === "hang") return ended("hang");
  if (fault?.kind === "status") {
    const { status, type } = fault;
    const message = fault.message ?? `scripted ${status}`;
    ended("status");
    response.writeHead(status, { "content-type": "application/json", ...fault.headers });
    response.end(JSON.stringify(fault.body ?? protocol.error({ status, message, type })));
    return;
  }
  if (fault?.kind === "html") {
    ended("status");
    response.writeHead(fault.status, { "content-type": "text/html; charset=utf-8" });
    response.end(LOGIN_PAGE);
    return;
  }
  if (answer.stream) return sendStream(answer, note);
  if (fault?.kind === "silent") return ended("silent");
  if (fault?.kind === "cut") {
    ended("cut");
    response.destroy();
    return;
  }
  if (response.destroyed) return ended("gone");
  note.used(reply.usage);
  ended("whole");
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(protocol.whole(reply)));
}

const LOGIN_PAGE =
  "<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head><body><h1>Sign in</h1></body></html>\n";

async function sendStream(answer: Answer, { ended, used }: AnswerNote): Promise<void> {
  const { step, fault, response, protocol, reply } = answer;
  const events = protocol.stream(reply);
  const isWhole = fault === null || fault.kind === "refusal";
  const breaksAt = isWhole ? events.length : Math.ceil(events.length / 2);
  response.writeHead(200, { "content-type": answer.sse ? "text/event-stream" : "application/json" });
  for (const [index, event] of events.slice(0, breaksAt).entries()) {
    if (index > 0 && step.eventDelayMs !== undefined) await pause(step.eventDelayMs);
    if (response.destroyed) return ended("gone");
    if (event.usage !== undefined) used(event.usage);
    if (index === events.length - 1) ended("whole");
    await written(response, answer.sse ? sseOf(event) : `${index === 0 ? "[" : ","}${JSON.stringify(event.data)}`);
  }
  switch (fault?.kind) {
    case "cut":
      ended("cut");
      response.destroy();
      return;
    case "silent":
      return ended("silent");
    default:
      response.end(answer.sse ? "" : "]");
  }
}

/** Resolves when the kernel has the bytes, so that they arrive before a later cut. */
function written(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve) => response.write(text, () => resolve()));
}

function sseOf({ name, data }: StreamEvent): string {
  const line = `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  return name === undefined ? line : `event: ${name}\n${line}`;
}
