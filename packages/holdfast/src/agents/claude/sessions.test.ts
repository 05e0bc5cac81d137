import { readFileSync, rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { AgentTask } from "../../ports/agent.ts";
import { prepareCall } from "../../testing/agent-contract/harness.ts";
import { MODEL, openClaudeScene, REAL_CLAUDE } from "../../testing/scenes/claude-scene.ts";
import { claudeSessions, lastMessageIn } from "./sessions.ts";
import { transcriptPlace } from "./transcript-place.ts";

const why = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";
const SECRET = "a-secret-that-nobody-keeps";

describe.skipIf(REAL_CLAUDE.kind === "absent")(`the real Claude Code's record of a session${why}`, () => {
  test("is read masked with its last message; put back, the session goes on from there", async ({ onTestFinished }) => {
    const says = (text: string) => ({ match: new RegExp(text), steps: [{ text: `${text}, said` }] });
    const rules = ["one", "two", "three", "four"].map(says);
    const { server, agent, cwd, env } = await openClaudeScene({ script: { rules }, later: onTestFinished });
    // Sessions are looked for where this very process would have them.
    const before = { ...process.env };
    const names = [...Object.keys(env), "OTHER_API_KEY"];
    Object.assign(process.env, env, { OTHER_API_KEY: SECRET });
    onTestFinished(() => {
      for (const name of names) delete process.env[name];
      Object.assign(process.env, before);
    });
    const run = async (change: Partial<AgentTask>) => {
      const call = prepareCall({ cwd }, { model: MODEL, ...change });
      return { ...call, outcome: await agent.run(call.task) };
    };
    const history = () => JSON.stringify(server.requests.at(-1)?.body["messages"]);

    const one = await run({ prompt: `one, and ${SECRET}` });
    const session = one.outcome.session ?? "";
    const kept = await claudeSessions.read({ session, cwd });
    expect(kept?.text).toContain("one, said");
    expect(kept?.text).not.toContain(SECRET);
    expect(kept?.lastMessage).toBe(one.events.findLast((event) => event.kind === "message")?.id);

    await run({ prompt: "two", session });
    expect((await claudeSessions.read({ session, cwd }))?.text).toContain("two, said");
    await claudeSessions.write({ session, cwd, text: kept?.text ?? "" });
    expect(await claudeSessions.read({ session, cwd })).toEqual(kept);
    const three = await run({ prompt: "three", session });
    expect(three.outcome).toMatchObject({ kind: "completed", text: "three, said", session });
    expect(three.outcome.usage).toEqual({ inputTokens: 100, outputTokens: 20, microUsd: 600 });
    expect(history()).toContain("one, said");
    expect(history()).not.toContain("two, said");

    const { file } = transcriptPlace({ session, cwd, env });
    const later = (await claudeSessions.read({ session, cwd }))?.text ?? "";
    rmSync(file);
    expect(await claudeSessions.read({ session, cwd })).toBe(null);
    expect((await run({ prompt: "four", session })).outcome).toMatchObject({ cause: "session_lost" });
    await claudeSessions.write({ session, cwd, text: later });
    expect(readFileSync(file, "utf8")).toBe(later);
    expect((await run({ prompt: "four", session })).outcome).toMatchObject({ kind: "completed", text: "four, said" });
    expect(history()).toContain("three, said");
  });
});

test("the last message is one of the model's own, in the main line", () => {
  const line = (uuid: string, more: object = {}) =>
    JSON.stringify({ type: "assistant", uuid, message: { model: "m" }, ...more });
  const text = [
    line("a"),
    line("b"),
    line("c", { isSidechain: true }),
    line("d", { message: { model: "<synthetic>" } }),
    JSON.stringify({ type: "user", uuid: "e", message: { role: "user", content: '"assistant"' } }),
  ];
  expect(lastMessageIn(`${text.join("\n")}\n{"type":"assistant","uuid":"f","mess`)).toBe("b");
  expect(lastMessageIn("")).toBe(null);
});
