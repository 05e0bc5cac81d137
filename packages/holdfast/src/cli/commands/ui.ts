/** The `ui` command: shows every run of this machine in a web page on the loopback interface. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { RUN_ID } from "@holdfast/core/run";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import type { Problem } from "@holdfast/dashboard/api";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { namedActor, userName } from "../../actor.ts";
import type { Holdfast } from "../../holdfast.ts";
import { type NamedRepository, listRepositories, nameRepositories } from "../../repository-registry.ts";
import { TOKEN, isEveryAddress } from "../../ui/session.ts";
import { type PageServer, announcePageServer, findPageServer } from "../../ui/ui-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { parseCount } from "../parse-arguments.ts";

export const spec = {
  name: "ui",
  summary: "see and steer every run in a web page",
  details: [
    "Serves a web page on 127.0.0.1 and opens it in the browser. It shows the runs of all repositories of this user, live: what waits for you, why a run stopped, its timeline and checkpoints, and what a restore would change. Every action shows its plan first, and the command that does the same.",
    "The address has a code that works once, in one browser. Run the command again for another browser: it opens the server that runs already. The server stops with Ctrl+C, and after eight hours without a browser. Runs do not depend on it.",
    "The page needs no account and no network. --host makes it reachable from other machines; this needs HOLDFAST_UI_TOKEN, a secret of 32 to 200 characters, and is not encrypted: prefer an SSH tunnel to the port.",
  ],
  operands: [
    { name: "ADDRESS", about: "RUN, RUN@7 or RUN@5..9: open this page", required: false, completes: "address" },
  ],
  consent: "reads",
  flags: {
    here: { type: "boolean", about: "only the runs of this repository" },
    "read-only": { type: "boolean", about: "show runs; offer no actions" },
    "no-open": { type: "boolean", about: "print the address, and open no browser" },
    port: { type: "text", value: "N", about: "listen on this port (default 4680, or another if it is taken)" },
    host: { type: "text", value: "ADDRESS", about: "listen on this address of the machine; needs HOLDFAST_UI_TOKEN" },
  },
  examples: [
    { line: "holdfast ui", about: "open the page" },
    { line: "holdfast ui issue-42", about: "open the page of one run" },
    { line: "holdfast ui --no-open --port 4700", about: "print the address, for an SSH tunnel" },
  ],
  reads: true,
  windsDown: true,
  json: '{"kind": "serving", "url", "origin", "port", "pid", "readOnly"}; with a server that runs already "kind" is "running". "url" has the code, which works once.',
} as const satisfies CommandSpec;

const LOOPBACK = "127.0.0.1";
/** The server ends after this long without a browser. */
const IDLE_MS = 8 * 3_600_000;
const LOOK_MS = 60_000;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const port = portOf(input.text("port"));
  const address = input.text("host") ?? LOOPBACK;
  const token = tokenOf(shell, input.text("host"));
  // The page shows all stores, also if the one of this directory is damaged.
  const here = input.on("here") || input.operand(0) !== undefined ? await repositoryHere(shell) : null;
  const path = await pathOf(shell, here, input.operand(0));
  const only = input.on("here") ? here : null;
  if (input.on("here") && here === null)
    throw new HoldfastError({
      code: "STORE_ABSENT",
      message: "Nothing is saved here yet",
      hint: "Start a run with `holdfast run`, or leave out --here.",
    });
  const running = input.text("host") === undefined ? findPageServer(shell.env) : null;
  if (running !== null && isEnough(running, { port, only, readOnly: input.on("read-only") }))
    return await openRunning(shell, running, { path, open: !input.on("no-open") });
  return await serve(shell, { address, port, token, only, path, input });
}

/** Another server is needed only for a view that the running one does not have. */
function isEnough(
  server: PageServer,
  wanted: { readonly port: number | null; readonly only: NamedRepository | null; readonly readOnly: boolean },
): boolean {
  if (wanted.port !== null && Number(new URL(server.origin).port) !== wanted.port) return false;
  return server.readOnly === wanted.readOnly && server.only === (wanted.only?.store ?? null);
}

async function serve(
  shell: Shell,
  params: {
    readonly address: string;
    readonly port: number | null;
    readonly token: string | null;
    readonly only: NamedRepository | null;
    readonly path: string;
    readonly input: Input<(typeof spec)["flags"]>;
  },
): Promise<Exit> {
  const { address, only, path, input } = params;
  const [{ Repositories }, { Sessions }, { LiveEvents }, { Plans }, server, { ownVersion }] = await Promise.all([
    import("../../ui/repositories.ts"),
    import("../../ui/session.ts"),
    import("../../ui/live.ts"),
    import("../../ui/plans.ts"),
    import("../../ui/server.ts"),
    import("../../interop/export.ts"),
  ]);
  const readOnly = input.on("read-only");
  const now = (): number => Date.now();
  const list = (): readonly NamedRepository[] => (only === null ? listRepositories(shell.env, now()) : [only]);
  const sessions = new Sessions(now, params.token);
  const secret = randomBytes(32).toString("base64url");
  const files = server.readPage();
  await using repositories = new Repositories({ list, now, waits: false });
  const live = new LiveEvents(repositories);
  const entry = process.argv[1] ?? "";
  const plans = new Plans({
    repositories,
    program: [process.execPath, ...process.execArgv, entry],
    env: shell.env,
    by: `${namedActor(shell.env) ?? userName()} (page)`,
  });
  await using running = await server.startServer({
    address,
    port: params.port,
    allows: (authorization) => sessions.allows(authorization),
    app: (hosts) =>
      server.createApp({
        repositories,
        sessions,
        hosts,
        files,
        readOnly,
        secret,
        version: ownVersion(),
        live,
        plans,
      }),
  });
  const { origin, port } = running;
  // A second server on another port is not announced: commands print addresses of the first.
  using _announced = announceOrNot(shell, { origin, pid: process.pid, secret, readOnly, only: only?.store ?? null });
  const opens = !input.on("no-open");
  const code = sessions.code(opens ? server.CODE_MS.opened : server.CODE_MS.printed);
  const url = `${origin}${path}#k=${code}`;
  shell.print({
    json: () => ({ kind: "serving", url, origin, port, pid: process.pid, readOnly }),
    text: () => `${url}\n`,
  });
  if (files.size === 0) shell.notify("This program was built without its page; only the API answers.");
  if (address !== LOOPBACK)
    shell.notify("Other machines can reach this server, and its connections are not encrypted.");
  shell.notify("The address works once. Ctrl+C stops the server; runs do not depend on it.");
  if (opens) openBrowser(shell, url);
  while (!shell.signal.aborted && now() - live.lastSeenAt < IDLE_MS) {
    await sleep(LOOK_MS, undefined, { signal: shell.signal }).catch(() => undefined);
    repositories.closeUnused();
  }
  return shell.signal.aborted ? "interrupted" : "done";
}

function announceOrNot(shell: Shell, server: PageServer): Disposable {
  try {
    return announcePageServer(shell.env, server);
  } catch {
    return { [Symbol.dispose]: () => undefined };
  }
}

async function openRunning(
  shell: Shell,
  server: PageServer,
  params: { readonly path: string; readonly open: boolean },
): Promise<Exit> {
  const { origin, pid, secret, readOnly } = server;
  const waiting = setTimeout(() => shell.notify(`Waiting for the page server (pid ${pid}) at ${origin}.`), 5000);
  const answer = await fetch(`${origin}/api/code`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ secret, printed: !params.open }),
    signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS), shell.signal]),
  })
    .then((response) => response.json() as Promise<{ readonly code?: unknown; readonly error?: Partial<Problem> }>)
    .catch((cause: unknown) => {
      throw noAnswer(server, cause);
    })
    .finally(() => clearTimeout(waiting));
  const { code } = answer;
  if (typeof code !== "string")
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `The page server (pid ${pid}) at ${origin} gave no code: ${answer.error?.message ?? "its answer is unknown"}`,
      hint: "Run `holdfast ui` again in a moment.",
    });
  const url = `${origin}${params.path}#k=${code}`;
  shell.print({
    json: () => ({ kind: "running", url, origin, port: Number(new URL(origin).port), pid, readOnly }),
    text: () => `${url}\n`,
  });
  shell.notify(`The page server runs already (pid ${pid}). The address works once.`);
  if (params.open) openBrowser(shell, url);
  return "done";
}

/** On a busy machine a server may be alive and slow: only what is known is said. */
function noAnswer({ origin, pid }: PageServer, cause: unknown): HoldfastError {
  const isLate = cause instanceof Error && cause.name === "TimeoutError";
  return new HoldfastError({
    code: "IO_FAILED",
    message: isLate
      ? `The page server (pid ${pid}) at ${origin} runs, and did not answer for ${ANSWER_MS / 1000} seconds`
      : `The page server (pid ${pid}) at ${origin} ended the connection without an answer`,
    hint: isLate
      ? `The machine may be busy: try again later. Or start another one: \`holdfast ui --port 4681\`. To replace it, \`kill ${pid}\` ends it; runs do not depend on it.`
      : "It may be ending or starting: run `holdfast ui` again in a moment.",
    retry: "later",
    cause,
  });
}

const ANSWER_MS = 60_000;

function portOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const port = parseCount("port", text);
  if (port > 65_535) throw usageError("--port must be at most 65535", "Leave it out to use the default.");
  return port;
}

/** Beyond loopback, only a secret of the user protects the page. */
function tokenOf(shell: Shell, host: string | undefined): string | null {
  const token = shell.env["HOLDFAST_UI_TOKEN"] ?? "";
  if (host !== undefined && (isIP(host) === 0 || isEveryAddress(host)))
    throw usageError(
      `--host needs one address of this machine, not ${JSON.stringify(host)}`,
      "Requests must name the address, so that other web pages cannot use the server.",
    );
  if (token === "" && host === undefined) return null;
  if (TOKEN.test(token)) return token;
  const form = "HOLDFAST_UI_TOKEN with 32 to 200 letters, digits, hyphens or underscores";
  throw host === undefined
    ? usageError(
        `The page server needs ${form}, or none`,
        "Unset it, or set it to the output of `openssl rand -hex 32`.",
      )
    : usageError(
        `--host makes the page reachable from other machines, and needs ${form}`,
        "Set it to the output of `openssl rand -hex 32`, or use an SSH tunnel and leave out --host.",
      );
}

/** The store of the current directory, under the name that the page uses; null: there is none. */
async function repositoryHere(shell: Shell): Promise<NamedRepository | null> {
  const holdfast = await openHere(shell);
  if (holdfast === undefined) return null;
  const { id, location: store } = holdfast.store;
  const known = listRepositories(shell.env, Date.now()).find((one) => one.store === store);
  const root = await mainWorktreeRoot(holdfast.workspaces, shell.cwd);
  const [named = null] = nameRepositories([{ id, store, root, usedAt: new Date().toISOString() }]);
  return known ?? named;
}

/** Outside a repository the page still shows the others. */
async function openHere(shell: Shell): Promise<Holdfast | undefined> {
  try {
    return await shell.openIfThere();
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY") return undefined;
    throw error;
  }
}

/** The page that the address names: `/r/shop/issue-42/@7`. Without one, the page decides what needs the user most. */
async function pathOf(shell: Shell, here: NamedRepository | null, typed: string | undefined): Promise<string> {
  if (typed === undefined) return "/";
  const [, name = "", rest = ""] = /^([^@]*)(@\d+(?:\.\.\d+)?)?$/.exec(typed) ?? [];
  const holdfast = name === "" ? undefined : await openHere(shell);
  if (here === null || holdfast === undefined)
    throw usageError(`${JSON.stringify(typed)} names no page`, "Write RUN, RUN@7 or RUN@5..9, in its repository.");
  const { id } = await holdfast.resolveRun(name);
  if (!RUN_ID.test(id)) throw new TypeError("a stored run has a valid id");
  return `/r/${encodeURIComponent(here.key)}/${id}${rest === "" ? "" : `/${rest}`}`;
}

/** The code is in the arguments of a program of this user for a moment; it works once. */
function openBrowser(shell: Shell, url: string): void {
  const [command = "", ...args] =
    process.platform === "darwin"
      ? ["open", url]
      : process.platform === "win32"
        ? ["rundll32", "url.dll,FileProtocolHandler", url]
        : ["xdg-open", url];
  const child = spawn(command, args, { stdio: "ignore", detached: true });
  child.once("error", () => shell.notify("No browser could be opened. Open the address above in one."));
  child.unref();
}
