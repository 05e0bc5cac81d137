// Requests to a forge's API: retried reads, complete lists, writes that are sent once, and the meaning of responses.

import { setTimeout } from "node:timers/promises";
import * as z from "zod/mini";
import { type Json, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { type ApiRequest, type ApiResponse, type LossCause, type Transport, redactSecrets } from "./transport.ts";

/** A forge's API. Reads are retried, lists are complete, and writes distinguish a refusal from an unknown outcome. */
export interface Api {
  /** null if it does not exist or is hidden from us. `seen` gets the headers of the response. */
  read<T>(
    path: string,
    shape: z.ZodMiniType<T>,
    seen?: (headers: ReadonlyMap<string, string>) => void,
  ): Promise<T | null>;
  /** All pages; null as for `read`. `items` extracts the list from a page. */
  list<T>(
    path: string,
    shape: z.ZodMiniType<T>,
    items?: (page: Json | undefined) => unknown,
  ): Promise<readonly T[] | null>;
  write(request: ApiRequest): Promise<Exclude<ClassifiedResponse, { kind: "turned_away" }>>;
  parse<T>(value: unknown, shape: z.ZodMiniType<T>, what: string): T;
  /** The error for a write with an unknown outcome whose result was not found afterwards. */
  lost(what: string, lost: Omit<Extract<ClassifiedResponse, { kind: "lost" }>, "kind">): HoldfastError;
}

interface ApiParams {
  /** The display name, such as "GitHub". */
  readonly forge: string;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Milliseconds before a read is retried; doubled each time. */
  readonly pauseMs?: number;
}

export function createApi(params: ApiParams): Api {
  const { forge, transport, clock, pauseMs = 1000 } = params;

  const once = async (request: ApiRequest): Promise<Exclude<ClassifiedResponse, { kind: "turned_away" }>> => {
    const answer = await transport.send(request);
    const what = `${request.method} ${withoutQuery(request.path)}`;
    const response = classifyResponse(answer, { forge, what, fix: transport.fix, now: clock.now() });
    if (response.kind === "turned_away") throw response.error;
    return response;
  };
  const get = async (path: string): Promise<Extract<ClassifiedResponse, { kind: "ok" | "absent" }>> => {
    for (let attempt = 1; ; attempt += 1) {
      const response = await once({ method: "GET", path });
      if (response.kind === "ok" || response.kind === "absent") return response;
      const what = `GET ${withoutQuery(path)}`;
      if (response.kind === "refused")
        throw unreadable(forge, what, { reason: `status ${response.status}: ${response.message}` });
      if (attempt === ATTEMPTS) throw unreadable(forge, what, response);
      await setTimeout(pauseMs * 2 ** (attempt - 1));
    }
  };
  const parse = <T>(value: unknown, shape: z.ZodMiniType<T>, what: string): T => {
    const parsed = z.safeParse(shape, value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
    throw unreadable(forge, what, { reason: `the response does not have the expected fields${where}` });
  };
  return {
    parse,
    async read(path, shape, seen) {
      const response = await get(path);
      if (response.kind === "ok") seen?.(response.headers);
      return response.kind === "absent" ? null : parse(response.body, shape, `GET ${withoutQuery(path)}`);
    },
    async list(path, shape, items = (page) => page) {
      const found = [];
      for (let next: string | null = withSize(path); next !== null;) {
        const response = await get(next);
        if (response.kind === "absent") return null;
        found.push(...parse(items(response.body), z.array(shape), `GET ${withoutQuery(path)}`));
        next = nextPage(withSize(path), response.headers.get("link"));
      }
      return found;
    },
    write: once,
    lost: (what, loss) =>
      unreadable(forge, what, { ...loss, reason: `${loss.reason}; the outcome of the request is unknown` }),
  };
}

/** Takes only the query from the link, so that requests never go to another host. */
export function nextPage(path: string, link: string | undefined): string | null {
  const next = /<([^>]*)>\s*;\s*rel="?next"?/i.exec(link ?? "")?.[1];
  const query = next?.split("?")[1];
  return query === undefined ? null : `${withoutQuery(path)}?${query}`;
}

const ATTEMPTS = 3;

function withSize(path: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}per_page=100`;
}

function withoutQuery(path: string): string {
  return path.split("?")[0] ?? path;
}

function unreadable(
  forge: string,
  what: string,
  { reason, until, why }: Omit<Extract<ClassifiedResponse, { kind: "lost" }>, "kind">,
): HoldfastError {
  const failed = why === "connection" ? `The connection to ${forge} failed` : `${forge} returned no usable response`;
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${failed} (${what}): ${reason}`,
    hint: "Try again when the network and the forge work. Holdfast finds what was done already and does not repeat it.",
    retry: "later",
    data: { ...(until === undefined ? {} : { until }), ...(why === undefined ? {} : { why }) },
  });
}

type Answered = Extract<ApiResponse, { kind: "answered" }>;

/** The meaning of a response, independent of the request. */
export type ClassifiedResponse =
  | { readonly kind: "ok"; readonly headers: Answered["headers"]; readonly body: Json | undefined }
  /** It does not exist or is hidden from us: forges do not distinguish the two. */
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly status: number; readonly message: string; readonly body: Json | undefined }
  /** No complete response was received: the forge may have acted or not. */
  | { readonly kind: "lost"; readonly reason: string; readonly until?: string; readonly why?: LossCause }
  /** The login was rejected, or a rate limit applies: the forge has not acted. */
  | { readonly kind: "turned_away"; readonly error: HoldfastError };

export function classifyResponse(
  answer: ApiResponse,
  at: { readonly forge: string; readonly what: string; readonly fix: string; readonly now: number },
): ClassifiedResponse {
  if (answer.kind === "lost") return answer;
  if (answer.kind === "no_login") return { kind: "turned_away", error: denied(at, answer.reason, at.fix) };
  const { status, headers, body } = answer;
  const message = messageOf(answer);
  if (status >= 200 && status < 300) return { kind: "ok", headers, body };
  const until = limitedUntil(answer, message, at.now);
  if (until !== null) return { kind: "turned_away", error: limited(at, message, until) };
  if (status === 401) return { kind: "turned_away", error: denied(at, `the login is not valid (${message})`, at.fix) };
  if (status === 403) return { kind: "turned_away", error: denied(at, message, permissionFix(answer, at.fix)) };
  // GitHub answers "not found" for anything that the token's scopes do not cover.
  if (status === 404 && lacksScope(answer))
    return { kind: "turned_away", error: denied(at, message, permissionFix(answer, at.fix)) };
  if (status === 404 || status === 410) return { kind: "absent" };
  // The transport follows redirects of reads. A write is never sent to another address than the requested one.
  if (status >= 300 && status < 400) return { kind: "refused", status, message: MOVED, body };
  if (status >= 400 && status < 500) return { kind: "refused", status, message, body };
  const again = retryAfter(headers, at.now);
  return { kind: "lost", reason: `status ${status}: ${message}`, ...(again === null ? {} : { until: again }) };
}

/** The forge's own message with its details. */
function messageOf({ status, body }: Answered): string {
  if (!isJsonObject(body)) return typeof body === "string" ? cut(body) : `status ${status}`;
  const message = body["message"] ?? body["error_description"] ?? body["error"];
  const errors = isJsonArray(body["errors"]) ? body["errors"] : [];
  const details = errors.flatMap((error) => {
    if (typeof error === "string") return [error];
    const detail = isJsonObject(error) ? error["message"] : undefined;
    return typeof detail === "string" ? [detail] : [];
  });
  const text =
    typeof message === "string" ? message : message === undefined ? `status ${status}` : JSON.stringify(message);
  return cut([text, ...details].join(": "));
}

/**
 * When to retry; null if the response is not a rate limit. A daily limit shows in the remaining count, a short one in
 * Retry-After or in the text.
 */
function limitedUntil({ status, headers }: Answered, message: string, now: number): string | null {
  const isTooQuick = (status === 403 || status === 422) && /submitted too quickly/i.test(message);
  if (status !== 403 && status !== 429 && status !== 503 && !isTooQuick) return null;
  const again = retryAfter(headers, now);
  if (again !== null) return again;
  const [left, reset] = ["remaining", "reset"].map((name) =>
    Number(headers.get(`x-ratelimit-${name}`) ?? headers.get(`ratelimit-${name}`) ?? Number.NaN),
  );
  // GitLab sends RateLimit-Reset with 429 whatever the remaining count is.
  if ((left === 0 || status === 429) && reset !== undefined && Number.isFinite(reset))
    return iso(Math.max(now, reset * 1000));
  if (
    status === 429 ||
    isTooQuick ||
    (status === 403 && /secondary rate limit|abuse detection|rate limit exceeded/i.test(message))
  )
    return iso(now + DEFAULT_RETRY_MS);
  return null;
}

/** Parses seconds or a date; null if the header is absent or invalid. */
function retryAfter(headers: Answered["headers"], now: number): string | null {
  const after = headers.get("retry-after");
  if (after === undefined || after.trim() === "") return null;
  const seconds = Number(after);
  if (Number.isFinite(seconds)) return iso(now + Math.max(0, seconds) * 1000);
  const date = Date.parse(after);
  return Number.isFinite(date) ? iso(Math.max(now, date)) : null;
}

const MOVED = "it has moved; set the remote to its new address";
const LAST_TIME = Date.UTC(9999, 0);

/** The wait that GitHub recommends where it gives no time. */
const DEFAULT_RETRY_MS = 60_000;

/** True if the forge lists sufficient scopes and the token has none of them. */
function lacksScope({ headers }: Answered): boolean {
  const has = headers.get("x-oauth-scopes");
  const wanted = scopesIn(headers.get("x-accepted-oauth-scopes"));
  if (has === undefined || wanted.length === 0) return false;
  const own = scopesIn(has);
  return !own.includes("repo") && !wanted.some((scope) => own.includes(scope));
}

function scopesIn(header: string | undefined): readonly string[] {
  return (header ?? "").split(",").flatMap((scope) => (scope.trim() === "" ? [] : [scope.trim()]));
}

function permissionFix({ headers, body }: Answered, fix: string): string {
  if (isJsonObject(body) && body["error"] === "insufficient_scope" && typeof body["scope"] === "string")
    return `The token needs one of the scopes "${body["scope"]}". ${fix}`;
  const permissions = headers.get("x-accepted-github-permissions") ?? "";
  if (permissions !== "") return `The token needs the permission "${permissions}" for this repository. ${fix}`;
  if (headers.get("x-github-sso")?.startsWith("required") === true)
    return "Authorise the login for the organisation's single sign-on, then try again.";
  const [wanted, has] = [headers.get("x-accepted-oauth-scopes") ?? "", headers.get("x-oauth-scopes")];
  if (wanted !== "" && has !== undefined) return `The login has "${has}" and needs one of "${wanted}". ${fix}`;
  return `Give the login access to this repository: contents, issues and pull requests, and to read checks. ${fix}`;
}

function denied(at: { readonly forge: string; readonly what: string }, why: string, hint: string): HoldfastError {
  const message = `${at.forge} denied access (${at.what}): ${why}`;
  return new HoldfastError({ code: "FORGE_DENIED", message, hint, retry: "ask" });
}

function limited(at: { readonly forge: string; readonly what: string }, why: string, until: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${at.forge} accepts no more requests until ${until} (${at.what}): ${why}`,
    hint: "Wait until then; the run continues by itself, or resume it then.",
    retry: "later",
    data: { why: "rate_limit", until, undone: true },
  });
}

/** Clamps a time that the forge sets beyond the range of dates, which would make toISOString throw. */
function iso(time: number): string {
  return new Date(Math.min(time, LAST_TIME)).toISOString();
}

function cut(text: string): string {
  const line = redactSecrets(text.replaceAll(/\s+/g, " ").trim());
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/** How to handle each outcome of a write, the same for every forge and resource. */
interface WriteOnceParams<T> {
  readonly request: Parameters<Api["write"]>[0];
  /** Parses the created resource from a successful response. */
  readonly done: (body: Json | undefined, what: string) => T | Promise<T>;
  /** Searches for the resource after the response was lost; null if it does not exist. */
  readonly find: () => Promise<T | null>;
  /** The error for a resource that can be read while the write reports that it does not exist. */
  readonly hidden: () => HoldfastError | Promise<HoldfastError>;
  /** Handles a refusal. The resource may exist because another writer was faster. */
  readonly refused: (
    refusal: Extract<ClassifiedResponse, { kind: "refused" }>,
  ) => T | HoldfastError | Promise<T | HoldfastError>;
}

/**
 * Sends the request once and never repeats it blindly. A write with an unknown outcome whose result is not found
 * becomes an error.
 */
export async function writeOnce<T>(api: Api, params: WriteOnceParams<T>): Promise<T> {
  const { request } = params;
  const what = `${request.method} ${request.path}`;
  const response = await api.write(request);
  switch (response.kind) {
    case "ok":
      return await params.done(response.body, what);
    case "lost": {
      const made = await params.find();
      if (made !== null) return made;
      throw api.lost(what, response);
    }
    case "absent":
      throw await params.hidden();
    case "refused": {
      const answer = await params.refused(response);
      if (answer instanceof HoldfastError) throw answer;
      return answer;
    }
  }
}

/** The error for a change that a forge rejects. */
export function forgeRefused(message: string, hint: string, data: Readonly<Record<string, unknown>>): HoldfastError {
  return new HoldfastError({ code: "FORGE_REFUSED", message, hint, data });
}

/** The name of an account at a forge. It becomes part of documents that other tools read by line. */
export const USER_NAME = z.string().check(z.regex(/^[^\p{Cc}\p{Zl}\p{Zp}]{1,255}$/u));

/** No forge assigns an issue to more users. */
export const MOST_ASSIGNEES = 1000;
