import { expect, test } from "vitest";
import { MODEL, REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import { title } from "./answers.ts";
import { makeBench } from "./bench.ts";

const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";
const SCORES = { faithful: 95, style: 95, docs: 95, corner_cases: 95 };
const UUID = /^[0-9a-f-]{36}$/;
const WORK = [
  "echo hello > greeting.txt",
  'echo "Say hello" > "$HOLDFAST_COMMIT_REPORT"',
  `printf '%s\\n\\nWhy.\\n%s\\n' '${title}' "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"`,
].join("; ");

test.skipIf(REAL_CLAUDE.kind === "absent")(
  `an issue becomes a pull request by the real Claude Code, and every token is counted for the run${why}`,
  async ({ onTestFinished }) => {
    const work = { name: "Bash", input: { command: WORK, description: "does the work" } };
    const { server, env } = await openClaudeScene({
      script: {
        rules: [
          { match: /You review a change/, steps: [{ text: JSON.stringify({ scores: SCORES }) }] },
          { match: /You implement issue/, steps: [{ tool: work }, { text: "I wrote greeting.txt." }] },
        ],
      },
      later: onTestFinished,
    });
    Object.assign(process.env, env);
    const model = `claude:${MODEL}`;
    await using bench = await makeBench({ answers: [], options: { implModel: model, reviewModel: model, yolo: true } });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.txt")).toBe("hello");
    expect(await bench.forge.findPullRequest("holdfast/issue-1-bench")).toMatchObject({ state: "open", title });
    const { input, output } = server.sent();
    expect(server.requests.length).toBe(3);
    const { position, conversation } = await bench.planes();
    expect(position.budget.spent).toMatchObject({ tokens: input + output, microUsd: input * 3 + output * 15 });
    expect(conversation).toMatchObject({
      agent: "claude",
      session: expect.stringMatching(UUID),
      lastMessage: expect.stringMatching(UUID),
      transcript: { text: expect.stringContaining("You review a change") },
    });
  },
);
