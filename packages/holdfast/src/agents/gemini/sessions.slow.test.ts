import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { AgentTask } from "../../ports/agent.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { openGeminiScene, REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import { geminiSessions } from "./sessions.ts";
import { transcriptPlace } from "./transcript-place.ts";

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;
const SECRET = "a-secret-that-nobody-keeps";

describe.skipIf(gone !== null)(`the real Gemini CLI's record of a session${gone === null ? "" : ` (${gone})`}`, () => {
  test("is read masked; put back, the session goes on from there", { timeout: 600_000 }, async ({ onTestFinished }) => {
    const usage = { input: 60, cacheRead: 40 };
    const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said`, usage }] });
    const script = { rules: ["one", "two", "three", "four"].map(says) };
    const { server, agent, cwd, env } = await openGeminiScene({ script, later: onTestFinished });
    // Sessions are looked for where this very process would have them.
    Object.assign(process.env, env, { OTHER_API_KEY: SECRET });
    const run = (change: Partial<AgentTask>) => agent.run(prepareCall({ cwd }, change).task);
    const history = () => JSON.stringify(server.requests.at(-1)?.body);

    const session = (await run({ prompt: `${SECRET}, and one` })).session ?? "";
    const kept = await geminiSessions.read({ session, cwd });
    expect(kept?.text).toContain("one, said");
    expect(kept?.text).not.toContain(SECRET);

    await run({ prompt: "two", session });
    expect((await geminiSessions.read({ session, cwd }))?.text).toContain("two, said");
    await geminiSessions.write({ session, cwd, text: kept?.text ?? "" });
    expect(await geminiSessions.read({ session, cwd })).toEqual(kept);
    const three = await run({ prompt: "three", session });
    expect(three).toMatchObject({ kind: "completed", text: "three, said", session });
    expect(three.usage).toEqual({ inputTokens: 100, outputTokens: 20, cachedTokens: 40, microUsd: null });
    const inRecord = (await geminiSessions.read({ session, cwd }))?.text ?? "";
    expect(geminiSessions.tokensIn?.(inRecord)).toEqual({ input: 200, output: 40 });
    expect(history()).toContain("one, said");
    expect(history()).not.toContain("two, said");

    const later = (await geminiSessions.read({ session, cwd }))?.text ?? "";
    forget(env, session, cwd);
    expect(await geminiSessions.read({ session, cwd })).toBe(null);
    expect(await run({ prompt: "four", session })).toMatchObject({ cause: "session_lost" });
    await geminiSessions.write({ session, cwd, text: later });
    expect(await run({ prompt: "four", session })).toMatchObject({ kind: "completed", text: "four, said" });
    expect(history()).toContain("three, said");
  });
});

/** All that it had for the worktree, as somebody does who makes room. */
function forget(env: AgentTask["env"], session: string, cwd: string): void {
  rmSync(transcriptPlace({ session, cwd, env }).tmp, { recursive: true });
}
