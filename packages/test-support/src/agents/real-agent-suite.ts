// Suites for real agent programs with a scripted model: the agent contract, kills and resumes, faults, and session records.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Agent, AgentTask, FailureCause } from "@holdfast/core/agent";
import { readProcessTable } from "@holdfast/platform/process-tree";
import {
  type AgentBehaviour,
  type AgentHarness,
  agentContract,
  appears,
  assertGone,
  prepareCall,
} from "@holdfast/testing/agent-contract";
import { SEED, sampleBySeed } from "../sample-by-seed.ts";
import type { ModelFault, ModelScript, ModelStep, ModelTool, ModelUsage } from "./model-script.ts";
import type { ModelServer } from "./model-server.ts";
import { type AgentScene, findRealAgent } from "./real-agents.ts";

type Later = (undo: () => void | Promise<void>) => void;

/** What the suites need for a real agent. Some cases run by default, all with HOLDFAST_FULL=1. */
export interface RealAgent {
  readonly agent: Agent;
  /** The program's name in test-agents/; default: the agent's name. */
  readonly program?: string;
  open(params: { readonly script: ModelScript; readonly later: Later }): Promise<AgentScene>;
  readonly write: (path: string, text: string) => ModelTool;
  readonly shell: (command: string) => ModelTool;
  /** A model that the agent supports. */
  readonly model: string;
  readonly missingModel: string;
  /** Cases of the contract that do not apply to this agent, and why. */
  readonly skips: Readonly<Record<string, string>>;
  /** It reports an answer only when it is complete. */
  readonly isSilent?: boolean;
  readonly priceOf?: AgentHarness["priceOf"];
  /** Whether the agent's own record contains this answer. An agent that writes its record late has nothing of what was killed before. */
  isRecorded?(scene: AgentScene, session: string, answers: number): boolean;
  readonly slowness: number;
  readonly samples: { readonly contract: number; readonly kills: number; readonly faults: number };
}

interface AgentFault {
  readonly name: string;
  readonly fault: ModelFault | "down" | "denied";
  readonly cause: FailureCause;
  readonly idleMs?: number;
  /** Minimum time from the start of the call. */
  readonly untilMs?: number;
}

const LIMIT = { timeout: 600_000 };

export function contractSuite(real: RealAgent): void {
  const gone = absence(real);
  describe(`the real ${real.agent.name} keeps the contract, by seed ${SEED}`, () => {
    for (const { name: promise, skip, run } of sampleBySeed(agentContract, real.samples.contract)) {
      const why = gone ?? real.skips[promise] ?? skip?.(real.agent) ?? null;
      test.skipIf(why !== null)(why === null ? promise : `${promise} (${why})`, LIMIT, async (context) => {
        await run(await harnessOf(real, context.onTestFinished));
      });
    }
  });
}

/** What is needed to kill an agent and to resume its session. */
type Mortal = Pick<RealAgent, "agent" | "program" | "open" | "write" | "shell" | "model" | "isRecorded"> & {
  readonly samples: Pick<RealAgent["samples"], "kills">;
};

/**
 * `counted`: moments at which a killed call's tokens equal what the server has sent. Those of the resumed call must be equal in any case.
 */
export function killSuite(real: Mortal, counted: { readonly midTool: boolean; readonly midStream: boolean }): void {
  const gone = absence(real);
  const slow: ModelStep = {
    tool: real.shell("touch started; sleep 600; touch late"),
    usage: { input: 210, output: 17 },
  };
  const stream: ModelStep = { text: "word\n".repeat(1000), eventDelayMs: 50 };
  const moments = [
    { name: "in a tool call", step: slow, moment: (scene: AgentScene) => appears(scene, "started") },
    { name: "in a stream", step: stream, moment: (scene: AgentScene) => midStream(scene.server) },
  ];
  describe.skipIf(gone !== null)(`the real ${real.agent.name}, killed${because(gone)}`, () => {
    test.for(sampleBySeed(moments, real.samples.kills))(
      "$name: the same session is resumed and finished",
      LIMIT,
      async ({ step, moment }, context) => {
        const scene = await real.open({ script: { rules: [] }, later: context.onTestFinished });
        const edit = {
          tool: real.write(join(scene.cwd, "made.txt"), "one\n"),
          usage: { input: 111, cacheRead: 9, output: 13 },
        };
        const finish = [{ tool: real.shell("echo two >> made.txt") }, { text: "All done." }];
        const rules = [
          { match: /finish it now/, steps: finish },
          { match: /begin/, steps: [edit, step] },
        ];
        scene.server.play({ rules });
        const { task, events } = prepareCall(scene, { prompt: "begin", model: real.model });
        const running = scene.agent.run(task);
        await moment(scene);
        const session = events.find((event) => event.kind === "session")?.id ?? "";
        const answers = step === slow ? 2 : 1;
        while (real.isRecorded?.(scene, session, answers) === false) await pause(10);
        killAgent(task.mark);
        const killed = await running;
        assertGone(task.mark);
        expect(killed).toMatchObject({ kind: "failed", cause: "killed" });
        const after = scene.server.sent();
        const { inputTokens, outputTokens } = tokensOf(after);
        if (step === slow ? counted.midTool : counted.midStream)
          expect(killed.usage).toMatchObject({ inputTokens, outputTokens });
        expect(killed.usage.inputTokens ?? 0).toBeLessThanOrEqual(inputTokens);
        expect(killed.usage.outputTokens ?? 0).toBeLessThanOrEqual(outputTokens);
        expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("one\n");
        const next = prepareCall(scene, { prompt: "finish it now", session: killed.session, model: real.model });
        const outcome = await scene.agent.run(next.task);
        expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
        expect(outcome.usage).toMatchObject(tokensOf(scene.server.sent(), after));
        // Events from before the kill are not reported a second time.
        expect(next.events.filter(({ kind }) => kind === "tool")).toHaveLength(1);
        expect(JSON.stringify(scene.server.requests.at(-1)?.body)).toContain("begin");
        expect(readFileSync(join(scene.cwd, "made.txt"), "utf8")).toBe("one\ntwo\n");
        expect(existsSync(join(scene.cwd, "late"))).toBe(false);
      },
    );
  });
}

export function faultSuite(real: RealAgent, faults: readonly AgentFault[]): void {
  const gone = absence(real);
  describe.skipIf(gone !== null)(`how the real ${real.agent.name} fails, by seed ${SEED}${because(gone)}`, () => {
    test.for(sampleBySeed(faults, real.samples.faults))("$name is $cause", LIMIT, async (row, context) => {
      const scene = await real.open({ script: scriptOf(real, row), later: context.onTestFinished });
      if (row.fault === "down") await scene.server.close();
      const change: Partial<AgentTask> = {
        model: real.model,
        idleMs: row.idleMs ?? null,
        yolo: row.fault !== "denied",
      };
      const began = Date.now();
      const outcome = await scene.agent.run(prepareCall(scene, change).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: row.cause });
      const until = outcome.kind === "failed" ? outcome.until : null;
      if (row.untilMs === undefined) expect(until).toBeNull();
      else expect(Date.parse(until ?? "") - began).toBeGreaterThanOrEqual(row.untilMs);
    });

    test("an unknown session is lost, and nothing is spent", LIMIT, async (context) => {
      const scene = await real.open({ script: { rules: [] }, later: context.onTestFinished });
      const session = scene.agent.name === "opencode" ? "ses_0000000000000000000000000a" : UNKNOWN;
      const outcome = await scene.agent.run(prepareCall(scene, { session, model: real.model }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session });
      expect(scene.server.requests).toEqual([]);
    });
  });
}

/** `forget` removes the agent's record of a session. */
export function recordSuite(
  real: RealAgent,
  forget: (at: { readonly session: string; readonly cwd: string; readonly env: AgentTask["env"] }) => void,
): void {
  const gone = absence(real);
  describe.skipIf(gone !== null)(`the real ${real.agent.name}'s record of a session${because(gone)}`, () => {
    test("written back, the session resumes from there", LIMIT, async (context) => {
      const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said` }] });
      const script = { rules: ["one", "two", "three"].map(says) };
      const { server, agent, cwd, env } = await real.open({ script, later: context.onTestFinished });
      const run = (change: Partial<AgentTask>) =>
        agent.run(prepareCall({ cwd }, { model: real.model, ...change }).task);
      const { session } = await run({ prompt: "one" });
      const at = { session: session ?? "", cwd };
      // Sessions are searched where this process would have them.
      const read = () => withEnvironment(env, async () => agent.sessions?.read(at));
      const kept = await read();
      expect(kept?.text).toContain("one, said");
      await run({ prompt: "two", session });
      forget({ ...at, env });
      expect(await read()).toBeNull();
      expect(await run({ prompt: "three", session })).toMatchObject({ kind: "failed", cause: "session_lost" });
      await withEnvironment(env, async () => agent.sessions?.write({ ...at, text: kept?.text ?? "" }));
      expect(await run({ prompt: "three", session })).toMatchObject({
        kind: "completed",
        text: "three, said",
        session,
      });
      const history = JSON.stringify(server.requests.at(-1)?.body);
      expect(history).toContain("one, said");
      expect(history).not.toContain("two, said");
    });
  });
}

/**
 * The record of a session is masked when it is read. A session whose record is written back resumes from there, and a
 * lost session resumes once its record is written back.
 */
export function maskedRecordSuite(params: {
  readonly title: string;
  /** Why the program is missing; null: it is installed. */
  readonly gone: string | null;
  readonly open: RealAgent["open"];
  /** Removes the agent's record of a session. */
  readonly forget: (at: { readonly session: string; readonly cwd: string; readonly env: AgentTask["env"] }) => void;
}): void {
  const { title, gone } = params;
  describe.skipIf(gone !== null)(`the real ${title}'s record of a session${because(gone)}`, () => {
    test("is read masked; written back, the session resumes from there", LIMIT, async ({ onTestFinished }) => {
      const secret = "a-secret-that-no-record-keeps";
      const usage = { input: 60, cacheRead: 40 };
      const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said`, usage }] });
      const script = { rules: ["one", "two", "three", "four"].map(says) };
      const { server, agent, cwd, env } = await params.open({ script, later: onTestFinished });
      const { sessions } = agent;
      assert.ok(sessions !== null);
      // Session files are searched with the environment of this process.
      Object.assign(process.env, env, { OTHER_API_KEY: secret });
      const run = (change: Partial<AgentTask>) => agent.run(prepareCall({ cwd }, change).task);
      const history = () => JSON.stringify(server.requests.at(-1)?.body);

      const session = (await run({ prompt: `${secret}, and one` })).session ?? "";
      const read = () => sessions.read({ session, cwd });
      const kept = await read();
      expect(kept?.text).toContain("one, said");
      expect(kept?.text).not.toContain(secret);

      await run({ prompt: "two", session });
      expect((await read())?.text).toContain("two, said");
      await sessions.write({ session, cwd, text: kept?.text ?? "" });
      expect(await read()).toEqual(kept);
      const three = await run({ prompt: "three", session });
      expect(three).toMatchObject({ kind: "completed", text: "three, said", session });
      expect(three.usage).toMatchObject({ inputTokens: 100, outputTokens: 20, cachedTokens: 40, microUsd: null });
      const later = (await read())?.text ?? "";
      expect(sessions.tokensIn?.(later)).toEqual({ input: 200, output: 40 });
      expect(history()).toContain("one, said");
      expect(history()).not.toContain("two, said");

      params.forget({ session, cwd, env });
      expect(await read()).toBe(null);
      expect(await run({ prompt: "four", session })).toMatchObject({ cause: "session_lost" });
      await sessions.write({ session, cwd, text: later });
      expect(await run({ prompt: "four", session })).toMatchObject({ kind: "completed", text: "four, said" });
      expect(history()).toContain("three, said");
    });
  });
}

const UNKNOWN = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b";

function scriptOf(real: RealAgent, { fault }: AgentFault): ModelScript {
  const denied = [{ tool: real.shell("touch x") }, { text: "Never mind." }];
  const steps: readonly ModelStep[] =
    fault === "denied" ? denied : fault === "down" ? [] : [{ text: "a\nb\nc\nd", fault }];
  return { rules: [{ match: /(?:)/, steps }] };
}

async function harnessOf(real: RealAgent, later: Later): Promise<AgentHarness> {
  const fault = { kind: "status", status: 404, message: "there is no such model" } as const;
  const script = { rules: [{ match: /(?:)/, steps: [{ fault }] }] };
  const { write, shell, isSilent = false, model, missingModel, slowness, priceOf } = real;
  return modelServerHarness(await real.open({ script, later }), {
    write,
    shell,
    isSilent,
    model,
    missingModel,
    slowness,
    ...(priceOf === undefined ? {} : { priceOf }),
  });
}

function tokensOf(now: ModelUsage, before?: ModelUsage) {
  const inputOf = (usage: ModelUsage) => usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    inputTokens: inputOf(now) - (before === undefined ? 0 : inputOf(before)),
    outputTokens: now.output - (before?.output ?? 0),
  };
}

function absence({ agent, program }: Pick<RealAgent, "agent" | "program">): string | null {
  const found = findRealAgent(program ?? agent.name);
  return found.kind === "absent" ? found.why : null;
}

function because(gone: string | null): string {
  return gone === null ? "" : ` (${gone})`;
}

/** Runs the contract with a real program; a case that does not apply is skipped with its reason. */
export function runAgentContract(params: {
  readonly title: string;
  readonly agent: Agent;
  /** Why the program is missing; null: it is installed. */
  readonly gone: string | null;
  /** Cases that do not apply to this agent, and why. */
  readonly skips: Readonly<Record<string, string>>;
  readonly harnessOf: (later: (undo: () => void | Promise<void>) => void) => Promise<AgentHarness>;
  /** Cases that read or change this process's environment: they do not run in parallel. */
  readonly alone: RegExp;
  readonly timeout?: number;
  /** How many cases to run, chosen by the seed, for a program that starts slowly. Default all. */
  readonly sample?: number;
}): void {
  const { agent, gone, skips, alone, timeout } = params;
  describe(params.title, () => {
    for (const { name: promise, skip, run } of sampleBySeed(agentContract, params.sample ?? agentContract.length)) {
      const why = gone ?? skips[promise] ?? skip?.(agent) ?? null;
      const options = { concurrent: !alone.test(promise), ...(timeout === undefined ? {} : { timeout }) };
      test.skipIf(why !== null)(why === null ? promise : `${promise} (${why})`, options, async (context) => {
        await run(await params.harnessOf(context.onTestFinished));
      });
    }
  });
}

/** A probe reads this process's own environment, and one case changes it. */
export const READS_OUR_ENVIRONMENT: RegExp = /^(?:the child has the allowed part|a probe answers)/;

type Tools = Pick<Parameters<typeof modelScriptOf>[0], "write" | "shell" | "isSilent">;

/** A real agent whose model answers as a case needs. */
export function modelServerHarness(
  scene: {
    readonly server: Pick<ModelServer, "play">;
    readonly agent: Agent;
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
  },
  params: Tools & Omit<AgentHarness, "agent" | "cwd" | "behave"> & { readonly model: string },
): AgentHarness {
  const { server, agent, cwd, env } = scene;
  const { write, shell, isSilent = false, model, ...rest } = params;
  return {
    ...rest,
    agent: { ...agent, probe: () => withEnvironment(env, () => agent.probe()) },
    cwd,
    behave(behaviour) {
      server.play(modelScriptOf({ behaviour, cwd, write, shell, isSilent }));
      return Promise.resolve(model);
    },
  };
}

/** Translates a behaviour into a model script for an agent with a file tool and a shell tool. */
function modelScriptOf(params: {
  readonly behaviour: AgentBehaviour;
  readonly cwd: string;
  readonly write: (path: string, text: string) => ModelTool;
  readonly shell: (command: string) => ModelTool;
  /** The agent reports an answer only when it is complete: its tool calls are the signs of life. */
  readonly isSilent?: boolean;
}): ModelScript {
  const { write, chatter, orphan, usage, hang, reply, exit } = params.behaviour;
  const spent = { usage: { input: usage?.input ?? 0, output: usage?.output ?? 0 } };
  const free = { usage: { input: 0, output: 0 } };
  const isStreamed = params.isSilent !== true;
  const lines = chatter === undefined || !isStreamed ? "" : "busy\n".repeat(chatter.lines);
  const pace = chatter === undefined || !isStreamed ? {} : { eventDelayMs: chatter.everyMs };
  const steps: ModelStep[] = [];
  if (write !== undefined) steps.push({ tool: params.write(join(params.cwd, write.path), write.text), ...free });
  if (chatter !== undefined && !isStreamed) {
    const calls = Math.min(chatter.lines, MAX_CALLS, Math.ceil((chatter.lines * chatter.everyMs) / 500));
    const tool = params.shell(`sleep ${(chatter.lines * chatter.everyMs) / 1000 / calls}`);
    steps.push(...Array.from({ length: calls }, () => ({ tool, ...free })));
  }
  if (orphan !== undefined) steps.push({ tool: params.shell(orphanCommand(orphan)), ...free });
  if (hang === true) steps.push({ fault: { kind: "hang" } });
  else if ((exit ?? 0) === 0) steps.push({ text: `${lines}${reply ?? ""}`, ...pace, ...spent });
  // Some work, then an error status that makes the program fail.
  else {
    steps.push({ text: reply ?? "", tool: params.shell("true"), ...spent });
    steps.push({ fault: { kind: "status", status: 400 } });
  }
  return { rules: [{ match: /(?:)/, steps }] };
}

const MAX_CALLS = 100;

/** A process in its own session that ignores SIGTERM and holds no pipe. */
function orphanCommand({ path, afterMs }: { readonly path: string; readonly afterMs: number }): string {
  const late = `trap "" TERM; : > .deaf; sleep ${afterMs / 1000}; : > ${path}; sleep 600`;
  return `setsid sh -c '${late}' >/dev/null 2>&1 </dev/null & while [ ! -e .deaf ]; do sleep 0.01; done`;
}

/** Kills only the agent itself with SIGKILL: the processes that it started continue to run. */
export function killAgent(mark: string): void {
  const agent = readProcessTable()?.live.find((entry) => entry.mark === mark && entry.parent === process.pid);
  assert.ok(agent !== undefined, "the agent is not running");
  process.kill(agent.pid, "SIGKILL");
}

/**
 * Waits until an answer after a tool call has begun and is not complete. Call it right after the agent is started: the
 * server may still keep the answer to a program that was killed before.
 */
export async function midStream(server: ModelServer): Promise<void> {
  const earlier = new Set(server.requests);
  await server.until((request) => !earlier.has(request) && (request.place?.step ?? 0) > 0 && request.end === "open");
  await pause(STREAMED_MS);
}

const STREAMED_MS = 400;

/** A probe reads this process's own environment. */
export async function withEnvironment<T>(env: Readonly<Record<string, string>>, act: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await act();
  } finally {
    for (const name of Object.keys(env)) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  }
}
