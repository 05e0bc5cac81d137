// Requests to the server of `holdfast ui`: the session, JSON answers, and errors as the CLI words them.
import type { Failure, Problem, Session } from "./api.ts";
import { createStore } from "./store.ts";

/** An answer with a status from 400 on. */
export class Refused extends Error {
  readonly status: number;
  readonly problem: Problem;
  readonly body: unknown;

  constructor(status: number, problem: Problem, body: unknown) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
    this.body = body;
  }
}

export type SessionState = { readonly kind: "starting" } | { readonly kind: "open" } | { readonly kind: "none" };
/** Whether the address had a code that the server refused: it was used already, or it expired. */
export const codeRefused = createStore(false);
/** `none`: the server does not know this browser. The user runs `holdfast ui`, and this tab continues by itself. */
export const session = createStore<SessionState>({ kind: "starting" });

/**
 * The token is in this tab's storage, which belongs to the origin with its port. It ends with the server, so a program that gets the port
 * later can do nothing with it. There is no cookie: a cookie of one port is sent to the servers of all ports.
 */
const KEY = "holdfast.token";
let token: string | null = null;

/** Tabs of the same origin give each other the token, so that an address without a code opens. */
const tabs = new BroadcastChannel("holdfast.session");
type Message = { readonly kind: "ask" } | { readonly kind: "token" | "refused"; readonly token: string };

export async function openSession(): Promise<void> {
  tabs.addEventListener("message", ({ data }: MessageEvent<Message>) => {
    if (data.kind === "ask" && session.get().kind === "open" && token !== null) tell({ kind: "token", token });
    if (data.kind === "token" && session.get().kind !== "open") use(data.token);
    // Otherwise two tabs would give each other the token of a server that has ended, again and again.
    if (data.kind === "refused" && data.token === token) forget();
  });
  const code = /^#k=([\w-]+)$/.exec(location.hash)?.[1];
  if (code !== undefined) {
    // The code is used once. It must not stay in the history of the browser.
    history.replaceState(history.state, "", location.pathname + location.search);
    const opened = await tradeCode(code);
    if (opened !== null) {
      use(opened);
      tell({ kind: "token", token: opened });
      return;
    }
    codeRefused.set(true);
  }
  const kept = sessionStorage.getItem(KEY);
  if (kept !== null) {
    use(kept);
    return;
  }
  tell({ kind: "ask" });
  setTimeout(() => {
    if (session.get().kind === "starting") session.set({ kind: "none" });
  }, 300);
}

async function tradeCode(code: string): Promise<string | null> {
  try {
    const { token: opened } = await send<Session>("/api/session", { method: "POST", ...json({ code }) });
    return opened;
  } catch {
    return null;
  }
}

function tell(message: Message): void {
  tabs.postMessage(message);
}

function use(given: string): void {
  token = given;
  sessionStorage.setItem(KEY, given);
  session.set({ kind: "open" });
}

function forget(): void {
  token = null;
  sessionStorage.removeItem(KEY);
  session.set({ kind: "none" });
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return send<T>(path, signal === undefined ? {} : { signal });
}

export function post<T>(path: string, body: object): Promise<T> {
  return send<T>(path, { method: "POST", ...json(body) });
}

/** Any response of the server, for streams. Throws if it is not a success. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  const response = await fetch(path, { ...init, headers, credentials: "omit", redirect: "error", cache: "no-store" });
  if (response.ok) return response;
  const body: unknown = await response.json().catch(() => null);
  if (response.status === 401 && token !== null && headers.get("authorization") === `Bearer ${token}`) {
    tell({ kind: "refused", token });
    forget();
    tell({ kind: "ask" });
  }
  throw new Refused(response.status, problemIn(body, response.status), body);
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  const response = await request(path, init);
  // The server is the same program and version as this page: both sides are checked against the same types.
  return (await response.json()) as T;
}

function json(body: object): RequestInit {
  return { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

function problemIn(body: unknown, status: number): Problem {
  if (typeof body === "object" && body !== null && "error" in body) return (body as Failure).error;
  return { code: `HTTP_${status}`, message: `The server answered with status ${status}.`, hint: null, command: null };
}

export function problemOf(error: unknown): Problem {
  if (error instanceof Refused) return error.problem;
  return {
    code: "NO_SERVER",
    message: "The server of this page does not answer.",
    hint: "Start it again. This page continues by itself.",
    // The same port: then this tab and the addresses in the user's notes work again.
    command: `holdfast ui --port ${location.port}`,
  };
}
