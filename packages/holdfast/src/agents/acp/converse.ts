import type { ClientContext } from "@agentclientprotocol/sdk";
import { asRecord, asText, isRecord, type JsonRecord } from "../../core/record.ts";
import type { AgentTask } from "../../ports/agent.ts";
import { answerPermission } from "./answer-permission.ts";
import type { AcpEnd, AcpError } from "./classify.ts";
import type { AcpSdk } from "./sdk.ts";
import { createWorktreeFiles } from "./worktree-files.ts";

export interface AcpListener {
  /** Every update of the session; `isOld`: it tells again what was said before this call. */
  update(update: JsonRecord, isOld: boolean): void;
  session(id: string): void;
  denied(what: string): void;
  /** The agent's own name for itself, and the one for people. */
  agent(info: { readonly name: string; readonly title: string }): void;
  answer(answer: JsonRecord): void;
}

export interface AcpStreams {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
}

/** One call, from the first word to the answer. Rejects only when the other side has gone. */
export async function converse(params: {
  readonly sdk: AcpSdk;
  readonly task: AgentTask;
  readonly streams: AcpStreams;
  readonly listener: AcpListener;
}): Promise<AcpEnd> {
  const { sdk, task, listener } = params;
  let isOld = task.session !== null;
  const app = sdk.client({ name: "holdfast" });
  answerFiles(app, params);
  app.onRequest("session/request_permission", ({ params: request }) => {
    const { isInside } = createWorktreeFiles(task.cwd);
    const answer = answerPermission({ request: { ...request }, yolo: task.yolo, isInside });
    if (answer.denied !== null) listener.denied(answer.denied);
    return { outcome: answer.outcome };
  });
  app.onNotification("session/update", ({ params: { update } }) => listener.update({ ...update }, isOld));
  const stream = sdk.ndJsonStream(params.streams.output, params.streams.input, { maxMessageBytes: MAX_MESSAGE_BYTES });
  return await app.connectWith(stream, async (agent) => {
    const began = await attempt("begin", () =>
      agent.request("initialize", {
        protocolVersion: sdk.PROTOCOL_VERSION,
        // Reads are not offered: there is nothing that only we could tell of a file, and Gemini CLI 0.61 takes "there is none" for a failure.
        clientCapabilities: { fs: { readTextFile: false, writeTextFile: true } },
        clientInfo: { name: "holdfast", version: "1" },
      }),
    );
    if (isEnd(began)) return began;
    if (began.protocolVersion !== sdk.PROTOCOL_VERSION)
      return unable("missing", `speaks version ${began.protocolVersion} of ACP, and Holdfast ${sdk.PROTOCOL_VERSION}`);
    const info = asRecord(began.agentInfo);
    const name = asText(info["name"]);
    listener.agent({ name, title: asText(info["title"]) || name });
    const session = await enter(agent, { task, can: asRecord(began.agentCapabilities) });
    if (typeof session !== "string") return session;
    listener.session(session);
    isOld = false;
    const cancel = (): void => void agent.notify("session/cancel", { sessionId: session }).catch(() => undefined);
    task.signal.addEventListener("abort", cancel, { once: true });
    try {
      const prompt = [{ type: "text" as const, text: task.prompt }];
      // Looked at as what it is: agents put more into it than the protocol's types know.
      const answer = await attempt<unknown>("prompt", () =>
        agent.request("session/prompt", { sessionId: session, prompt }),
      );
      if (isEnd(answer)) return answer;
      const told = asRecord(answer);
      listener.answer(told);
      return { kind: "answered", stopReason: asText(told["stopReason"]) };
    } finally {
      task.signal.removeEventListener("abort", cancel);
    }
  });
}

/** A prompt comes back in what a loaded session replays, and a file in one message: far beyond what any of them is. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

/** The id of the session to prompt. To go on without hearing everything again is preferred. */
async function enter(
  agent: ClientContext,
  params: { readonly task: AgentTask; readonly can: JsonRecord },
): Promise<string | AcpEnd> {
  const { can } = params;
  const { cwd, session } = params.task;
  if (session === null) {
    const made = await attempt("session", () => agent.request("session/new", { cwd, mcpServers: [] }));
    return isEnd(made) ? made : made.sessionId;
  }
  const way = isRecord(asRecord(can["sessionCapabilities"])["resume"])
    ? "session/resume"
    : can["loadSession"] === true
      ? "session/load"
      : null;
  if (way === null) return unable("session_lost", "cannot go on with a session that another process began");
  const entered = await attempt("session", () => agent.request(way, { sessionId: session, cwd, mcpServers: [] }));
  return isEnd(entered) ? entered : session;
}

/** Also for an agent that asks without having looked at what was offered. */
function answerFiles(
  app: ReturnType<AcpSdk["client"]>,
  { sdk, task }: { readonly sdk: AcpSdk; readonly task: AgentTask },
): void {
  app.onRequest("fs/read_text_file", ({ params: { path, line, limit } }) => {
    const read = createWorktreeFiles(task.cwd).read(path, { line: line ?? null, limit: limit ?? null });
    if (read.kind === "read") return { content: read.text };
    throw read.kind === "absent"
      ? sdk.RequestError.resourceNotFound(path)
      : new sdk.RequestError(INVALID_PARAMS, `${path} cannot be read: ${read.why}`);
  });
  app.onRequest("fs/write_text_file", ({ params: { path, content } }) => {
    const written = createWorktreeFiles(task.cwd).write(path, content);
    if (written.kind === "written") return {};
    throw new sdk.RequestError(INVALID_PARAMS, `${path} cannot be written: ${written.why}`);
  });
}

const INVALID_PARAMS = -32_602;

/** What the agent answers with an error is an end; that it has gone is not. */
async function attempt<T>(at: "begin" | "session" | "prompt", ask: () => Promise<T>): Promise<T | AcpEnd> {
  try {
    return await ask();
  } catch (error) {
    const told = errorOf(error);
    if (told === null) throw error;
    return { kind: "refused", at, error: told };
  }
}

function isEnd(value: unknown): value is AcpEnd {
  return isRecord(value) && (value["kind"] === "refused" || value["kind"] === "unable");
}

function errorOf(error: unknown): AcpError | null {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "number") return null;
  const data = "data" in error ? asRecord(error.data) : {};
  const details = asText(data["details"]) || asText(data["message"]);
  const status = data["statusCode"] ?? data["status"];
  // OpenCode's name for an answer of the provider, whose words it puts behind "Internal error: ".
  const isProvider = data["errorName"] === "APIError";
  const words = isProvider ? error.message.replace(/^Internal error: /, "") : error.message;
  return {
    code: error.code,
    message: details === "" ? words : `${words}: ${details}`,
    status: typeof status === "number" ? status : null,
    isProvider,
  };
}

function unable(cause: "missing" | "session_lost", message: string): AcpEnd {
  return { kind: "unable", cause, message };
}
