import { randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import type { AgentTask } from "../../ports/agent.ts";
import { sha256 } from "../../system/hash.ts";
import { readProcessTable } from "../../system/process-table.ts";
import { assertGone, prepareCall } from "../../testing/agent-contract/harness.ts";
import { MODEL, openClaudeScene, REAL_CLAUDE } from "../../testing/scenes/claude-scene.ts";

const SEED = process.env["HOLDFAST_SEED"] ?? String(randomInt(2 ** 31));
const KILLS = process.env["HOLDFAST_FULL"] === "1" ? 40 : 4;
const TIMEOUT = 600_000 + KILLS * 20_000;
const STEPS = [0, 1, 2, 3];
const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

/** After how many lines of its output the program is killed: before the first, in a stream, in a tool call, or not any more. */
function killAfter(kill: number): number {
  return Number.parseInt(sha256(`${SEED}/${kill}`).slice(0, 8), 16) % 45;
}

test.skipIf(REAL_CLAUDE.kind === "absent")(
  `killed ${KILLS} times at moments of seed ${SEED}, the work is finished and nothing is counted that was not told${why}`,
  { timeout: TIMEOUT },
  async ({ onTestFinished }) => {
    const tools = STEPS.map((step) => ({
      text: `Step ${step}.\nNow.\n`,
      tool: { name: "Bash", input: { command: `echo ${step} > step-${step}; sleep 0.2`, description: "a step" } },
    }));
    const script = { rules: [{ match: /(?:)/, steps: [...tools, { text: "All done." }] }] };
    const { server, agent, cwd } = await openClaudeScene({ script, later: onTestFinished });
    let session: string | null = null;
    for (let kill = 0; kill <= KILLS; kill += 1) {
      const before = server.requests.length;
      const lines = kill === KILLS ? Infinity : killAfter(kill);
      const call = prepareCall({ cwd }, { model: MODEL, session, iteration: kill + 1 });
      const { task, isDead } = killedAfter(call.task, lines);
      const outcome = await agent.run(task);
      assertGone(task.mark);
      const told = server.sent((request) => server.requests.indexOf(request) >= before);
      const counted = outcome.usage;
      expect(counted.inputTokens ?? 0).toBeLessThanOrEqual(told.input);
      expect(counted.outputTokens ?? 0).toBeLessThanOrEqual(told.output);
      if (outcome.kind === "completed") {
        expect([outcome.text, counted.inputTokens, counted.outputTokens]).toEqual([
          "All done.",
          told.input,
          told.output,
        ]);
      } else {
        // Killed before it had written anything, there is nothing to go on with.
        expect(outcome.cause).toBe(isDead() ? "killed" : "session_lost");
      }
      session = outcome.kind === "failed" && outcome.cause === "session_lost" ? null : outcome.session;
      if (kill === KILLS && outcome.kind === "failed") kill -= 1;
    }
    for (const step of STEPS) expect(existsSync(join(cwd, `step-${step}`))).toBe(true);
  },
);

/** Kills the program itself, and none of its tools, once so many lines have come. */
function killedAfter(task: AgentTask, lines: number): { readonly task: AgentTask; isDead(): boolean } {
  let seen = 0;
  let dead = false;
  const kill = async (): Promise<void> => {
    for (;;) {
      const program = readProcessTable()?.live.find(
        (entry) => entry.mark === task.mark && entry.parent === process.pid,
      );
      if (program !== undefined) {
        dead = true;
        process.kill(program.pid, "SIGKILL");
        return;
      }
      if (seen > 0) return;
      await pause(5);
    }
  };
  const onEvent: AgentTask["onEvent"] = (event) => {
    if (event.kind === "session" && lines === 0) void kill();
    if (event.kind !== "raw") return;
    seen += 1;
    if (seen === lines) void kill();
  };
  return { task: { ...task, onEvent }, isDead: () => dead };
}
