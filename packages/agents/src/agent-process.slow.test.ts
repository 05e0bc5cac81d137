import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { AgentTask } from "@holdfast/core/agent";
import { type ProcessEntry, readProcessTable, terminateTree } from "@holdfast/platform/process-tree";
import type { ModelScript, ModelTool } from "@holdfast/test-support/agents/model-script";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import type { RealAgent } from "@holdfast/test-support/agents/real-agent-suite";
import {
  ACP_LINE,
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openAcpScene,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { NEEDS_PROC, prepareCall, processesOf } from "@holdfast/testing/agent-contract";

type Later = (undo: () => void | Promise<void>) => void;

/** One agent, set up to run COMMAND in a separate shell and then to wait for its model or for itself. */
interface Row {
  readonly name: string;
  /** The name in test-agents/; null if it needs no program. */
  readonly program: string | null;
  prepare(later: Later): Promise<Pick<AgentTask, "cwd" | "env" | "model">>;
}

/** Two processes that neither a process group nor parent links reach: one in its own session, one forked twice. */
const COMMAND = [
  `setsid sh -c 'trap "" TERM HUP INT; : > .session; exec sleep 600' >/dev/null 2>&1 </dev/null &`,
  `sh -c 'setsid sh -c ": > .forked; exec sleep 600" >/dev/null 2>&1 </dev/null &'`,
  "while [ ! -e .session ] || [ ! -e .forked ]; do sleep 0.05; done; touch started",
].join("\n");

const ROWS: readonly Row[] = [
  { name: "command", program: null, prepare: async (later) => ownScene(later, `${COMMAND}\nsleep 600`) },
  ...["scripted", "scripted-session"].map((name) => ({ name, program: null, prepare: prepareScripted })),
  real("claude", openClaudeScene, MODEL, (command) => ({ name: "Bash", input: { command, description: "work" } })),
  real("codex", openCodexScene, CODEX_MODEL, (cmd) => ({ name: "exec_command", input: { cmd } })),
  real("gemini", openGeminiScene, GEMINI_MODEL, geminiShell),
  { ...real("acp", openAcpScene, ACP_LINE, geminiShell, { GEMINI_CLI_NO_RELAUNCH: "true" }), program: "gemini" },
  ...[REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN].map(realRow),
];

function geminiShell(command: string): ModelTool {
  return { name: "run_shell_command", input: { command } };
}

function realRow({ agent, program, open, model, shell }: RealAgent): Row {
  return { ...real(agent.name, open, model, shell), program: program ?? agent.name };
}

function real(
  name: string,
  open: (params: { readonly script: ModelScript; readonly later: Later }) => Promise<Pick<AgentTask, "cwd" | "env">>,
  model: string,
  shell: (command: string) => ModelTool,
  env: AgentTask["env"] = {},
): Row {
  return {
    name,
    program: name,
    async prepare(later) {
      const steps = [{ tool: shell(COMMAND) }, { fault: { kind: "hang" } as const }];
      const scene = await open({ script: { rules: [{ match: /(?:)/, steps }] }, later });
      return { cwd: scene.cwd, env: { ...scene.env, ...env }, model };
    },
  };
}

function ownScene(later: Later, model: string): Pick<AgentTask, "cwd" | "env" | "model"> {
  return { cwd: scratchDirectory(later), env: {}, model };
}

async function prepareScripted(later: Later): Promise<Pick<AgentTask, "cwd" | "env" | "model">> {
  const path = join(scratchDirectory(later), "script.json");
  const spawned = { ignoreTerm: true, path: "late", afterMs: 600_000 };
  const answer = { edits: [{ do: "write", path: "started", text: "" }], spawn: spawned, hang: true };
  writeFileSync(path, JSON.stringify({ answers: [answer] }));
  return ownScene(later, path);
}

describe.skipIf(NEEDS_PROC() !== null)("an agent whose Holdfast was killed", () => {
  test.for(ROWS)(
    "$name ends with its supervisor and all processes that it started, but not while the supervisor is only stopped",
    { timeout: 600_000 },
    async (row, { skip, onTestFinished, annotate }) => {
      const found = row.program === null ? null : findRealAgent(row.program);
      if (found?.kind === "absent") return skip(found.why);
      const given = await row.prepare(onTestFinished);
      const { task } = prepareCall(given, given);
      const supervisor = supervise(row.name, task, onTestFinished);
      await until(() => existsSync(join(task.cwd, "started")) && processesOf(task.mark).length >= 2, supervisor);
      supervisor.kill("SIGSTOP");
      await pause(STOPPED_MS);
      expect(processesOf(task.mark).length).toBeGreaterThanOrEqual(2);
      supervisor.kill("SIGCONT");
      const began = performance.now();
      supervisor.kill("SIGKILL");
      await until(() => processesOf(task.mark).length === 0);
      await annotate(`${row.name}: ended ${Math.round(performance.now() - began)} ms after its supervisor`);
      await until(() => watchdogsOf(supervisor).length === 0);
    },
  );

  test("a supervisor that exits normally leaves no watchdog, and one whose watchdog was killed starts another", async ({
    onTestFinished,
  }) => {
    const given = ownScene(onTestFinished, "touch one; while [ ! -e go ]; do sleep 0.05; done; sleep 600");
    const { task } = prepareCall(given, given);
    const supervisor = supervise("command", task, onTestFinished);
    await until(() => existsSync(join(task.cwd, "one")), supervisor);
    const [first] = watchdogsOf(supervisor);
    process.kill(first ?? expect.fail("no watchdog"), "SIGKILL");
    await until(() => watchdogsOf(supervisor).some((pid) => pid !== first), supervisor);
    supervisor.kill("SIGKILL");
    await until(() => processesOf(task.mark).length === 0 && watchdogsOf(supervisor).length === 0);
    const short = prepareCall(given, { model: "true" }).task;
    const orderly = supervise("command", short, onTestFinished);
    const ended = once(orderly, "close");
    await ended;
    expect(orderly.exitCode).toBe(0);
    await until(() => watchdogsOf(orderly).length === 0);
  });

  test("the watchdog survives signals of a terminal to the whole group, and a kill of the group", async ({
    onTestFinished,
  }) => {
    const given = ownScene(onTestFinished, "touch one; setsid sleep 600 & wait");
    const { task } = prepareCall(given, given);
    const supervisor = supervise("command", task, onTestFinished);
    await until(() => processesOf(task.mark).length >= 2, supervisor);
    await until(() => watchdogsOf(supervisor).some(handlesSignals), supervisor);
    for (const pid of watchdogsOf(supervisor))
      for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"] as const) process.kill(pid, signal);
    process.kill(-(supervisor.pid ?? 0), "SIGKILL");
    await until(() => processesOf(task.mark).length === 0 && watchdogsOf(supervisor).length === 0);
  });
});

/**
 * True once the program has installed its handlers; before that a signal ends it. SIGHUP is the last that it handles.
 * Node itself installs handlers for SIGINT and SIGTERM at its start, so they prove nothing.
 */
function handlesSignals(pid: number): boolean {
  const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
  return ((BigInt(`0x${caught}`) >> BigInt(constants.signals.SIGHUP - 1)) & 1n) === 1n;
}

const STOPPED_MS = 2000;
const LIMIT_MS = 120_000;
const WORKER = join(import.meta.dirname, "../../test-support/src/agents/supervised-call.ts");

function supervise(provider: string, task: AgentTask, later: Later): ChildProcess {
  const { signal: _signal, onEvent: _onEvent, ...plain } = task;
  const args = ["--disable-warning=ExperimentalWarning", WORKER, provider, JSON.stringify(plain)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], detached: true });
  later(async () => {
    child.kill("SIGKILL");
    await terminateTree({ mark: task.mark });
  });
  return child;
}

/** The limit is generous: a slow machine is not a failure, an agent that never ends is one. */
async function until(isSo: () => boolean, alive?: ChildProcess): Promise<void> {
  const limit = performance.now() + LIMIT_MS;
  while (!isSo()) {
    if (performance.now() > limit) expect.fail(`still not so after ${LIMIT_MS} ms`);
    if (alive !== undefined && alive.exitCode !== null) expect.fail("the supervisor has ended");
    await pause(20);
  }
}

/**
 * The watchdogs of this supervisor: its own children without a mark. After its death their parent changes, so they are
 * found by pid.
 */
const known = new Map<number, Set<number>>();

function watchdogsOf({ pid = 0 }: ChildProcess): readonly number[] {
  const live = readProcessTable()?.live ?? [];
  const before = known.get(pid) ?? new Set();
  known.set(pid, before);
  const isOne = (entry: ProcessEntry): boolean => entry.parent === pid && entry.supervisor === null;
  for (const entry of live) if (isOne(entry)) before.add(entry.pid);
  return live.filter((entry) => before.has(entry.pid)).map((entry) => entry.pid);
}
