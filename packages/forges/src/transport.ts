// Transports to a forge's API: the programs gh and glab, or HTTP with a token. Also parses responses and removes
// secrets.

import type { Json, JsonObject } from "@holdfast/core/json";
import { maskSecrets } from "@holdfast/core/mask";
import type { Clock } from "@holdfast/platform/clock";
import { MARK_VARIABLE } from "@holdfast/platform/process-tree";
import { type ProcessResult, runProcess } from "@holdfast/platform/subprocess";
import { watchdogEnvironment } from "@holdfast/platform/watchdog";

/**
 * One way to reach a forge's API. A program with a login and plain HTTP with a token return the same responses, so that
 * the layers above are shared.
 */
export interface Transport {
  /** The name used in messages: the program's name, or "token". */
  readonly name: string;
  /** The hint for a rejected login. */
  readonly fix: string;
  /** Never rejects. The result contains no credentials. */
  send(request: ApiRequest): Promise<ApiResponse>;
  /**
   * The same transport with a mark for the processes it starts. Such a process may outlive us and still deliver its
   * request. So the next worker ends it by its mark before it looks anything up. A request sent within this process
   * ends with it.
   */
  marked(mark: string): Transport;
}

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Relative to the API's root, with its query: `repos/o/r/issues?page=2`. */
  readonly path: string;
  readonly body?: JsonObject;
}

export type ApiResponse =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Names are in lower case. */
      readonly headers: ReadonlyMap<string, string>;
      /** Parsed JSON, or plain text; undefined if there is none. */
      readonly body: Json | undefined;
    }
  /** No complete response was received: it is unknown whether the forge acted. */
  | { readonly kind: "lost"; readonly reason: string; readonly why?: LossCause }
  /** No login is available, and nothing was sent. */
  | { readonly kind: "no_login"; readonly reason: string };

/** "connection" means that the connection failed, or ended before the response was complete. */
export type LossCause = "connection";

/**
 * Plain HTTP with a token. The token goes to `root` only: fetch removes the header when a redirect leads to another
 * host.
 */
export function createHttpTransport(params: {
  /** Such as `https://api.github.com`. */
  readonly root: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A secret that is removed from all messages. */
  readonly token: string;
  readonly fix: string;
  readonly timeoutMs?: number;
}): Transport {
  const { root, token, timeoutMs = 60_000 } = params;
  const transport: Transport = {
    name: "token",
    fix: params.fix,
    async send(request) {
      try {
        return await ask(`${root}/${request.path}`, request, params.headers, timeoutMs);
      } catch (error) {
        const reason = redactSecrets(reasonOf(error, timeoutMs), [token]);
        return { kind: "lost", reason, ...(isTimeout(error) ? {} : { why: "connection" }) };
      }
    },
    marked: () => transport,
  };
  return transport;
}

async function ask(
  url: string,
  request: ApiRequest,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<ApiResponse> {
  const { method, body } = request;
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const answered = new Map([...response.headers].map(([name, value]) => [name.toLowerCase(), value]));
  return parseBody(response.status, answered, await response.text());
}

/** fetch reports only "fetch failed" and has the reason in its cause. */
function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (isTimeout(error)) return `no answer within ${timeoutMs / 1000} s`;
  return error.cause instanceof Error && error.cause.message !== "" ? error.cause.message : error.message;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}

/**
 * Uses `gh api` or `glab api`. The program holds the login, the proxy and the certificates of the user; Holdfast sees
 * only responses.
 */
export function createProgramTransport(params: {
  readonly name: "gh" | "glab";
  /** Path of the program. */
  readonly program: string;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fix: string;
  readonly env?: NodeJS.ProcessEnv;
  /** The mark that identifies the processes it starts. If absent they have no mark, even if we have one. */
  readonly mark?: string;
  readonly timeoutMs?: number;
}): Transport {
  const { name, program, host, env = process.env, timeoutMs = 60_000 } = params;
  const headers = Object.entries(params.headers).flatMap(([key, value]) => ["-H", `${key}: ${value}`]);
  return {
    name,
    fix: params.fix,
    async send({ method, path, body }) {
      const input = body === undefined ? [] : ["--input", "-", "-H", "Content-Type: application/json"];
      const result = await runProcess({
        command: program,
        args: ["api", "--include", "--hostname", host, "--method", method, ...headers, ...input, path],
        env: {
          ...quiet(env),
          ...(params.mark === undefined ? {} : { [MARK_VARIABLE]: params.mark, ...watchdogEnvironment() }),
        },
        timeoutMs,
        ...(body === undefined ? {} : { input: Buffer.from(JSON.stringify(body)) }),
      });
      return answerOf(name, result, timeoutMs);
    },
    marked: (mark) => createProgramTransport({ ...params, mark }),
  };
}

function answerOf(name: string, result: ProcessResult, timeoutMs: number): ApiResponse {
  const output = redactSecrets(result.stderr.trim().split("\n").slice(0, 3).join("; "));
  if (result.kind === "timed_out")
    return { kind: "lost", reason: `${name} had no answer within ${timeoutMs / 1000} s` };
  if (result.kind === "not_started") return { kind: "no_login", reason: `${name} could not be started: ${output}` };
  const parsed = result.kind === "exited" ? parseResponse(result.stdout.toString("utf8")) : null;
  // The program exits with 1 for each status from 300 on, and still prints the status. A success status with a failed
  // exit means a truncated response.
  if (parsed?.kind === "answered" && (result.code === 0 || parsed.status >= 300)) return parsed;
  if (parsed?.kind === "lost") return parsed;
  const reason =
    output === "" ? `${name} ended with ${result.code ?? result.signal ?? "nothing"}` : `${name}: ${output}`;
  return result.code === 4 || /auth login/.test(output)
    ? { kind: "no_login", reason }
    : { kind: "lost", reason, why: "connection" };
}

/** The program must not prompt, colour or page its output, print requests, or inherit the mark of an outer run. */
function quiet(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !NOISY.test(name));
  return {
    ...Object.fromEntries(kept),
    NO_COLOR: "1",
    GH_PROMPT_DISABLED: "1",
    GH_NO_UPDATE_NOTIFIER: "1",
    GLAB_CHECK_UPDATE: "false",
    NO_PROMPT: "1",
  };
}

const NOISY =
  /^(?:GH_DEBUG|GLAB_DEBUG|DEBUG|GH_FORCE_TTY|CLICOLOR_FORCE|FORCE_COLOR|GH_PAGER|GLAB_PAGER|PAGER|DEBUG_HTTP|GH_REPO|GIT_DIR|GIT_WORK_TREE|HOLDFAST_MARK|HOLDFAST_SUPERVISOR)$/;

/**
 * Parses the output of `gh api --include` and `glab api --include`: a status line, headers, an empty line, the body.
 * null if it has another format.
 */
export function parseResponse(text: string): ApiResponse | null {
  const end = /\r?\n\r?\n/.exec(text);
  const head = end === null ? text : text.slice(0, end.index);
  const [first = "", ...lines] = head.split(/\r?\n/);
  const status = /^HTTP\/[\d.]+ (\d{3})\b/.exec(first)?.[1];
  if (status === undefined) return null;
  const headers = lines.flatMap((line) => {
    const at = line.indexOf(":");
    return at === -1 ? [] : [[line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim()] as const];
  });
  return parseBody(Number(status), new Map(headers), end === null ? "" : text.slice(end.index + end[0].length));
}

/** Invalid JSON means that the response was truncated. */
function parseBody(status: number, headers: ReadonlyMap<string, string>, text: string): ApiResponse {
  if (text.trim() === "") return { kind: "answered", status, headers, body: undefined };
  // A page of a proxy. Forges return HTML pages for their own failures too, and there the status is more precise.
  if (status < 500 && /^\s*(?:<!doctype html|<html[\s>])/i.test(text))
    return { kind: "lost", reason: pageReason(status, text) };
  if (!/\bjson\b/i.test(headers.get("content-type") ?? "")) return { kind: "answered", status, headers, body: text };
  try {
    const body: Json = JSON.parse(text);
    return { kind: "answered", status, headers, body };
  } catch {
    return { kind: "lost", reason: "the answer was cut off", why: "connection" };
  }
}

function pageReason(status: number, text: string): string {
  const title = /<title[^>]*>([^<]{1,100})</i.exec(text)?.[1]?.trim() ?? "";
  const page = title === "" ? "" : `, titled "${title}"`;
  return `an HTML page came instead of the forge's answer (status ${status}${page}). A proxy or a captive portal is in between: sign in to the network, or correct HTTPS_PROXY and NO_PROXY`;
}

/**
 * Removes secrets from text of a forge or its program: the used token, anything that looks like one, and credentials in
 * URLs. Messages end up in journals, logs and reports.
 */
export function redactSecrets(text: string, known: readonly string[] = []): string {
  const values = known.filter((secret) => secret !== "").map((value) => ({ name: "token", value }));
  return maskSecrets(text, values)
    .replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, "$1***@")
    .replaceAll(
      /\b((?:authorization|private-token|job-token)["']?\s*[:=]\s*["']?)(?:(?:bearer|token|basic)\s+)?[^\s"',]+/gi,
      "$1***",
    );
}

/** Used without a program and a token: every request is denied with a hint. */
export function createNoLoginTransport(params: { readonly reason: string; readonly fix: string }): Transport {
  const { reason, fix } = params;
  const none: Transport = { name: "none", fix, send: async () => ({ kind: "no_login", reason }), marked: () => none };
  return none;
}

/** Options of every forge with a server. */
export interface ServerForgeOptions {
  readonly transport: Transport;
  readonly host: string;
  /** Owner of the repository with the issues and pull requests; it may contain several groups. */
  readonly owner: string;
  readonly name: string;
  /** The repository that receives branches, if it is a fork. */
  readonly head?: { readonly owner: string; readonly name: string };
  readonly clock?: Clock;
  /** Milliseconds before a read is retried. */
  readonly pauseMs?: number;
}
