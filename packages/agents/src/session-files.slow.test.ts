import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { ModelScript, ModelTool } from "@holdfast/test-support/agents/model-script";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import { withEnvironment } from "@holdfast/test-support/agents/real-agent-suite";
import {
  type AgentScene,
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { prepareCall } from "@holdfast/testing/agent-contract";

type Later = (undo: () => void | Promise<void>) => void;

interface Row {
  readonly name: string;
  readonly open: (params: { readonly script: ModelScript; readonly later: Later }) => Promise<AgentScene>;
  readonly model: string;
  readonly shell: (command: string) => ModelTool;
}

const ROWS: readonly Row[] = [
  { ...REAL_COPILOT, name: "copilot" },
  { ...REAL_PI, name: "pi" },
  { ...REAL_QWEN, name: "qwen" },
  {
    name: "claude",
    open: openClaudeScene,
    model: MODEL,
    shell: (command) => ({ name: "Bash", input: { command, description: "as scripted" } }),
  },
  {
    name: "codex",
    open: openCodexScene,
    model: CODEX_MODEL,
    shell: (cmd) => ({ name: "exec_command", input: { cmd } }),
  },
];

const PROMPT = "Do it now.\nAll of it.";

test.for(ROWS)(
  "the record of the real $name shows a finished turn, by its prompt, and never an interrupted one",
  async (row, { skip, onTestFinished }) => {
    const found = findRealAgent(row.name);
    if (found.kind === "absent") return skip(found.why);
    const steps = [{ tool: row.shell("echo hi") }, { text: "All done." }];
    const scene = await row.open({ script: { rules: [{ match: /(?:)/, steps }] }, later: onTestFinished });
    const { sessions } = scene.agent;
    const { task } = prepareCall(scene, { prompt: PROMPT, model: row.model });
    const outcome = await scene.agent.run(task);
    const at = { session: outcome.session ?? "", cwd: scene.cwd };
    const text = (await withEnvironment(scene.env, async () => sessions?.read(at)))?.text ?? "";
    expect(sessions?.answerIn?.(text, PROMPT)).toBe("All done.");
    expect(sessions?.answerIn?.(text, "Something else.")).toBeNull();
    const { inputTokens, outputTokens } = outcome.usage;
    expect(sessions?.tokensIn?.(text)).toEqual({ input: inputTokens, output: outputTokens });
    // A record that is cut before the end of the answer has an open turn. So has one with a later prompt.
    const end = text.lastIndexOf("All done.");
    for (let at = 0; at < 40; at += 1) {
      const cut = Math.floor((end * at) / 40);
      expect(sessions?.answerIn?.(text.slice(0, cut), PROMPT), `cut at ${cut} of ${text.length}`).toBeNull();
    }
  },
);

test("the database of the real opencode shows a finished turn, by its prompt, and never an interrupted one", async ({
  skip,
  onTestFinished,
}) => {
  const found = findRealAgent("opencode");
  if (found.kind === "absent") return skip(found.why);
  const steps = [{ tool: REAL_OPENCODE.shell("echo hi") }, { text: "All done." }];
  const scene = await REAL_OPENCODE.open({ script: { rules: [{ match: /(?:)/, steps }] }, later: onTestFinished });
  const { records } = scene.agent;
  const { task } = prepareCall(scene, { prompt: PROMPT, model: REAL_OPENCODE.model });
  const outcome = await scene.agent.run(task);
  const at = { session: outcome.session ?? "", cwd: scene.cwd };
  const answer = async (prompt: string) => await withEnvironment(scene.env, async () => records?.answer(at, prompt));
  expect(await answer(PROMPT)).toBe("All done.");
  expect(await answer("Something else.")).toBeNull();
  const { inputTokens, outputTokens } = outcome.usage;
  const tokens = await withEnvironment(scene.env, async () => records?.tokens(at));
  expect(tokens).toEqual({ input: inputTokens, output: outputTokens });
  // The database before the answer is complete, and before it has begun.
  using database = new DatabaseSync(join(scene.env["XDG_DATA_HOME"] ?? "", "opencode/opencode.db"));
  const last = "(SELECT max(id) FROM message)";
  database.exec(`UPDATE message SET data = json_remove(data, '$.finish', '$.time.completed') WHERE id = ${last}`);
  expect(await answer(PROMPT)).toBeNull();
  database.exec(`PRAGMA foreign_keys = ON; DELETE FROM message WHERE id = ${last}`);
  expect(await answer(PROMPT)).toBeNull();
});

test.for([...ROWS, { name: "gemini", open: openGeminiScene, model: GEMINI_MODEL }])(
  "a session of the real $name continues on another machine, in another worktree, from the record in the checkpoint",
  async (row, { skip, onTestFinished }) => {
    const found = findRealAgent(row.name);
    if (found.kind === "absent") return skip(found.why);
    const says = (text: string) => ({ match: new RegExp(`${text}$`), steps: [{ text: `${text}, said` }] });
    const open = () => row.open({ script: { rules: ["one", "two"].map(says) }, later: onTestFinished });
    const [there, here] = [await open(), await open()];
    expect([here.cwd === there.cwd, here.env["HOME"] === there.env["HOME"]]).toEqual([false, false]);
    const first = await there.agent.run(prepareCall(there, { prompt: "one", model: row.model }).task);
    const session = first.session ?? "";
    const record = await withEnvironment(there.env, async () =>
      there.agent.sessions?.read({ session, cwd: there.cwd }),
    );
    const at = { session, cwd: here.cwd };
    expect(await withEnvironment(here.env, async () => here.agent.sessions?.read(at))).toBeNull();
    await withEnvironment(here.env, async () => here.agent.sessions?.write({ ...at, text: record?.text ?? "" }));
    const second = await here.agent.run(prepareCall(here, { prompt: "two", session, model: row.model }).task);
    expect(second).toMatchObject({ kind: "completed", text: "two, said" });
    expect(JSON.stringify(here.server.requests.at(-1)?.body)).toContain("one, said");
  },
);
