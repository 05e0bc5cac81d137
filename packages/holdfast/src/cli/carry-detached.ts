import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import type { Holdfast } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import { EXITS } from "../core/exit.ts";
import type { Exit } from "../core/exit.ts";
import type { Work } from "../core/run/run.ts";
import type { Shell } from "./command.ts";

/** The id that the process in the background gives a run which nothing but chance would name. */
export const RUN_ID_VARIABLE = "HOLDFAST_RUN_ID";

/**
 * The same command without --detach, in a session of its own: no terminal that closes ends it. What it prints goes to a file beside the agents' logs.
 * Returns when it holds the run; a process that ends before is told here, with what it said.
 */
export async function carryDetached(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly workflow: string; readonly work: Work },
): Promise<Exit> {
  const { run } = params;
  const log = openLog(join(holdfast.store.location, "logs", run));
  const child = start(log.fd, { ...shell.env, [RUN_ID_VARIABLE]: run });
  closeSync(log.fd);
  // Until it can say so itself.
  using _starting = child.pid === undefined ? null : holdfast.work.announce({ ...params, pid: child.pid });
  const ended = endOf(child);
  const begun = await waitUntilHeld(shell, holdfast, { run, pid: child.pid ?? 0, ended });
  if (begun === null) {
    const status = await ended;
    const waits = (await holdfast.store.getRun(run))?.state.kind === "parked";
    return toldEnd(shell, { status, log: log.path, waits });
  }
  child.unref();
  const { program } = shell.talk;
  shell.print({
    json: () => ({ run, pid: child.pid, log: log.path, queued: begun === "waiting" }),
    text: () =>
      begun === "waiting"
        ? `Waits for a place in the background: ${run} (pid ${child.pid})\n`
        : `Works in the background: ${run} (pid ${child.pid})\n`,
  });
  shell.say(`Where it stands: ${program} status ${run}`);
  shell.say(`What it says:    ${program} logs ${run} --follow`);
  shell.say(`Stop it:         ${program} pause ${run}`);
  return "done";
}

function start(fd: number, env: NodeJS.ProcessEnv): ChildProcess {
  const [entry = "", ...words] = process.argv.slice(1);
  const border = [...words, "--"].indexOf("--");
  const args = words.filter((word, at) => at >= border || word !== "--detach");
  return spawn(process.execPath, [...process.execArgv, entry, ...args], {
    env,
    detached: true,
    stdio: ["ignore", fd, fd],
  });
}

/** `0-console.log`, then `0-console-2.log`: `holdfast logs` shows them before what the agents said. */
function openLog(directory: string): { readonly path: string; readonly fd: number } {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (let count = 1; ; count += 1) {
    const path = join(directory, `0-console${count === 1 ? "" : `-${count}`}.log`);
    try {
      return { path, fd: openSync(path, "wx", 0o600) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  }
}

function endOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once("error", () => resolve(EXITS.failed.status));
    child.once("exit", (status) => resolve(status ?? EXITS.failed.status));
  });
}

/** null: it ended before it held the run. */
async function waitUntilHeld(
  shell: Shell,
  { store }: Holdfast,
  params: { readonly run: string; readonly pid: number; readonly ended: Promise<number> },
): Promise<"working" | "waiting" | null> {
  const over = params.ended.then(() => "over" as const);
  for (;;) {
    const lease = (await store.listLeases()).find(({ run }) => run === params.run);
    if (lease?.owner.pid === params.pid) {
      if (lease.slot === "waiting") return "waiting";
      // Its first checkpoint is there when all that it needs to begin has been found.
      if ((await store.getRun(params.run))?.latest !== null) return "working";
    }
    const next = await Promise.race([over, sleep(LOOK_MS, "later" as const, { signal: shell.signal })]);
    if (next === "over") return null;
  }
}

const LOOK_MS = 50;

/** It may have come to its end already; else what it said is the failure. */
function toldEnd(
  shell: Shell,
  params: { readonly status: number; readonly log: string; readonly waits: boolean },
): Exit {
  // With FORCE_COLOR the log has colours, which are not of this process.
  const said = stripVTControlCharacters(readFileSync(params.log, "utf8"));
  const exit = EXIT_KINDS.find((kind) => EXITS[kind].status === params.status) ?? "failed";
  if (exit === "done" || exit === "parked" || (exit === "decision" && params.waits)) {
    shell.write(said);
    return exit;
  }
  shell.say(said);
  throw new HoldfastError({
    code: CODE_OF[exit] ?? "IO_FAILED",
    message: `The process in the background ended with status ${params.status} before it could work`,
    hint: `What it said is above, and in ${params.log}.`,
    data: { status: params.status, log: params.log, said },
  });
}

// The keys of a constant record are its type's.
const EXIT_KINDS = Object.keys(EXITS) as readonly Exit[];
const CODE_OF: Partial<Readonly<Record<Exit, HoldfastError["code"]>>> = {
  usage: "USAGE",
  nothing: "NOTHING_TO_RESUME",
  decision: "NEEDS_DECISION",
  held: "LOOP_LIMIT",
  corrupt: "STORE_CORRUPT",
};
