import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Agent, AgentTask, FailureCause } from "../ports/agent.ts";
import { agentContract, type AgentHarness } from "./agent-contract.ts";
import { appears, assertGone, prepareCall } from "./agent-contract/harness.ts";
import { modelHarness } from "./agent-contract/model-harness.ts";
import { withEnvironment } from "./agent-contract/with-environment.ts";
import { killAgent, midStream } from "./kill-agent.ts";
import type { ModelFault, ModelScript, ModelStep, ModelTool, ModelUsage } from "./model-server/model-script.ts";
import type { AgentScene } from "./scenes/open-agent-scene.ts";
import { findRealAgent } from "./real-agents.ts";
import { sampleBySeed, SEED } from "./sample-by-seed.ts";

type Later = (undo: () => void | Promise<void>) => void;

/** What the suites need to know about a real agent. Some of the cases are run by default, all with HOLDFAST_FULL=1. */
export interface RealAgent {
  readonly agent: Agent;
  /** As test-agents/ has it; by default the agent's name. */
  readonly program?: string;
  open(params: { readonly script: ModelScript; readonly later: Later }): Promise<AgentScene>;
  readonly write: (path: string, text: string) => ModelTool;
  readonly shell: (command: string) => ModelTool;
  /** One that the agent knows. */
  readonly model: string;
  readonly missingModel: string;
  /** Cases of the contract that say nothing of this agent, and why. */
  readonly apart: Readonly<Record<string, string>>;
  /** It tells an answer when it is whole. */
  readonly isSilent?: boolean;
  readonly priceOf?: AgentHarness["priceOf"];
  /** Whether the agent's own record has come to this answer: one that writes it later than it acts knows nothing of what was killed before. */
  isRecorded?(scene: AgentScene, session: string, answers: number): boolean;
  readonly slowness: number;
  readonly samples: { readonly contract: number; readonly kills: number; readonly faults: number };
}

export interface AgentFault {
  readonly name: string;
  readonly fault: ModelFault | "down" | "denied";
  readonly cause: FailureCause;
  readonly idleMs?: number;
  /** At least, from the start of the call. */
  readonly untilMs?: number;
}

const LIMIT = { timeout: 600_000 };

export function contractSuite(real: RealAgent): void {
  const gone = absence(real);
  describe(`the real ${real.agent.name} keeps the contract, by seed ${SEED}`, () => {
    for (const { name: promise, skip, run } of sampleBySeed(agentContract, real.samples.contract)) {
      const why = gone ?? real.apart[promise] ?? skip?.(real.agent) ?? null;
      test.skipIf(why !== null)(why === null ? promise : `${promise} (${why})`, LIMIT, async (context) => {
        await run(await harnessOf(real, context.onTestFinished));
      });
    }
  });
}

/** What it takes to kill one and to go on with it. */
type Mortal = Pick<RealAgent, "agent" | "program" | "open" | "write" | "shell" | "model" | "isRecorded"> & {
  readonly samples: Pick<RealAgent["samples"], "kills">;
};

/** `counted`: at which moments a killed call's tokens are what the server has sent. Those of the call that goes on must be in any case. */
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
      "$name: the same session is gone on with and finished",
      LIMIT,
      async ({ step, moment }, context) => {
        const scene = await real.open({ script: { rules: [] }, later: context.onTestFinished });
        const edit = {
          tool: real.write(join(scene.cwd, "made.txt"), "one\n"),
          usage: { input: 111, cacheRead: 9, output: 13 },
        };
        const finish = [{ tool: real.shell("echo two >> made.txt") }, { text: "All done." }];
        const rules = [
          { match: /go on/, steps: finish },
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
        const next = prepareCall(scene, { prompt: "go on", session: killed.session, model: real.model });
        const outcome = await scene.agent.run(next.task);
        expect(outcome).toMatchObject({ kind: "completed", text: "All done.", session: killed.session });
        expect(outcome.usage).toMatchObject(tokensOf(scene.server.sent(), after));
        // Of what was there before nothing is told a second time.
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

    test("a session that it does not know is lost, and nothing is spent", LIMIT, async (context) => {
      const scene = await real.open({ script: { rules: [] }, later: context.onTestFinished });
      const session = scene.agent.name === "opencode" ? "ses_0000000000000000000000000a" : UNKNOWN;
      const outcome = await scene.agent.run(prepareCall(scene, { session, model: real.model }).task);
      expect(outcome).toMatchObject({ kind: "failed", cause: "session_lost", session });
      expect(scene.server.requests).toEqual([]);
    });
  });
}

/** `forget` removes what the agent has of a session. */
export function recordSuite(
  real: RealAgent,
  forget: (at: { readonly session: string; readonly cwd: string; readonly env: AgentTask["env"] }) => void,
): void {
  const gone = absence(real);
  describe.skipIf(gone !== null)(`the real ${real.agent.name}'s record of a session${because(gone)}`, () => {
    test("put back, the session goes on from there", LIMIT, async (context) => {
      const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said` }] });
      const script = { rules: ["one", "two", "three"].map(says) };
      const { server, agent, cwd, env } = await real.open({ script, later: context.onTestFinished });
      const run = (change: Partial<AgentTask>) =>
        agent.run(prepareCall({ cwd }, { model: real.model, ...change }).task);
      const { session } = await run({ prompt: "one" });
      const at = { session: session ?? "", cwd };
      // Sessions are looked for where this very process would have them.
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
  return modelHarness(await real.open({ script, later }), {
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
