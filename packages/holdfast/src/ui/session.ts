/** Who may ask the page server: codes that are used once, session tokens in memory, and the checks that every request passes first. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** Why a request is refused before any route sees it; null: it is not. */
export interface Refused {
  readonly status: 400 | 401 | 403 | 405 | 413 | 414 | 415 | 421 | 429;
  readonly message: string;
}

export interface RequestFacts {
  readonly method: string;
  readonly path: string;
  readonly url: string;
  readonly header: (name: string) => string | undefined;
}

const MAX_URL = 8 * 1024;
export const MAX_BODY = 64 * 1024;

/**
 * Pure. A page of another site can reach a loopback port, by its address or by a name that it points to 127.0.0.1. So the names are compared
 * exactly, on every route, before anything else.
 */
export function refuseRequest(facts: RequestFacts, hosts: ReadonlySet<string>): Refused | null {
  const host = facts.header("host");
  if (host === undefined || !hosts.has(host)) return { status: 421, message: "This server is not for that host name." };
  const origin = facts.header("origin");
  // `localhost` may be another server than 127.0.0.1: the origin must be the very host of the request.
  if (origin !== undefined && origin !== `http://${host}`)
    return { status: 403, message: "Requests of other sites are refused." };
  const site = facts.header("sec-fetch-site");
  // A link in a mail or in another page may open the page itself, and nothing else.
  const isNavigation = facts.method === "GET" && facts.header("sec-fetch-mode") === "navigate";
  const isOwn = site === undefined || site === "same-origin" || site === "none";
  if (!isOwn && !(isNavigation && !facts.path.startsWith("/api/")))
    return { status: 403, message: "Requests of other sites are refused." };
  if (facts.url.length > MAX_URL) return { status: 414, message: "The address is too long." };
  // A HEAD of the events would be a stream without a reader.
  const isHead = facts.method === "HEAD" && !facts.path.startsWith("/api/");
  if (facts.method !== "GET" && facts.method !== "POST" && !isHead)
    return { status: 405, message: `${facts.method} is not allowed.` };
  return facts.method === "POST" ? refusePost(facts) : null;
}

function refusePost({ path, header }: RequestFacts): Refused | null {
  if (!path.startsWith("/api/")) return { status: 405, message: "POST is not allowed here." };
  const type = header("content-type") ?? "";
  if (type.split(";", 1)[0]?.trim().toLowerCase() !== "application/json")
    return { status: 415, message: "Send application/json." };
  const length = Number(header("content-length") ?? Number.NaN);
  if (!(length <= MAX_BODY)) return { status: 413, message: `Send at most ${MAX_BODY} bytes, with their length.` };
  return null;
}

/** Names under which a browser on this machine reaches the server. */
export function ownHosts(address: string, port: number): ReadonlySet<string> {
  const names =
    address === "127.0.0.1" ? ["127.0.0.1", "localhost"] : [address.includes(":") ? `[${address}]` : address];
  return new Set(names.map((name) => `${name}:${port}`));
}

/** The forms of "all addresses", also as IPv4 in IPv6. */
export function isEveryAddress(address: string): boolean {
  const { hostname } = new URL(`http://${address.includes(":") ? `[${address.split("%")[0]}]` : address}`);
  return ["0.0.0.0", "[::]", "[::ffff:0:0]"].includes(hostname);
}

/** Codes and tokens are kept as digests: their comparison takes the same time whatever was sent. */
export class Sessions {
  readonly #codes = new Map<string, number>();
  readonly #tokens = new Set<string>();
  readonly #now: () => number;
  readonly #fixed: string | null;

  /** `fixed`: a token that the user chose. */
  constructor(now: () => number, fixed: string | null) {
    this.#now = now;
    this.#fixed = fixed === null ? null : digest(fixed);
  }

  /** A code for one browser, once. */
  code(lifeMs: number): string {
    const now = this.#now();
    for (const [key, until] of this.#codes) if (until <= now) this.#codes.delete(key);
    const code = randomBytes(32).toString("base64url");
    this.#codes.set(digest(code), now + lifeMs);
    return code;
  }

  /** Trades a code for a session token; null: the code is unknown, used or too old. */
  trade(code: string): string | null {
    const key = digest(code);
    const until = this.#codes.get(key);
    this.#codes.delete(key);
    if (until === undefined || until <= this.#now()) return null;
    const token = randomBytes(32).toString("base64url");
    this.#tokens.add(digest(token));
    const [oldest] = this.#tokens;
    if (this.#tokens.size > MAX_SESSIONS && oldest !== undefined) this.#tokens.delete(oldest);
    return token;
  }

  allows(authorization: string | undefined): boolean {
    const token = (authorization ?? "").replace(/^Bearer /, "");
    if (authorization !== `Bearer ${token}` || !TOKEN.test(token)) return false;
    const key = digest(token);
    return key === this.#fixed || this.#tokens.has(key);
  }
}

/** What a bearer token may be, ours and one that the user chose. */
export const TOKEN = /^[A-Za-z0-9_-]{32,200}$/;
const MAX_SESSIONS = 100;

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

/** Compares secrets without telling by its time where they differ. */
export function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(digest(a)), Buffer.from(digest(b)));
}

/** At most `limit` events in each second. */
export class RateLimit {
  readonly #limit: number;
  readonly #now: () => number;
  #second = 0;
  #count = 0;

  constructor(limit: number, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  allows(): boolean {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) [this.#second, this.#count] = [second, 0];
    this.#count += 1;
    return this.#count <= this.#limit;
  }
}

/** Sent with every answer, errors and files included. */
export const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
};
