import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { AGENT_PROGRAMS } from "@holdfast/core/agent";
import { PROJECT_FILES } from "./agent-files.ts";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import type { ConsentItem } from "./consent.ts";
import { agentFileItems, argumentFiles, startsUnknown } from "./agent-files.ts";
import { loadConfig } from "./load-config.ts";

/** A repository with a config and a script. */
function repository(config: string) {
  const root = scratchDirectory(onTestFinished);
  mkdirSync(join(root, ".git"));
  mkdirSync(join(root, "sub"));
  writeFileSync(join(root, "holdfast.config.yaml"), config);
  const script = (text: string): void => writeFileSync(join(root, "x.sh"), text);
  script("echo one\n");
  const items = async (below = "."): Promise<readonly ConsentItem[]> =>
    (await loadConfig({ cwd: join(root, below), env: {}, storeFlag: undefined, allows: () => false })).consents;
  const write = (path: string, data: string | Buffer): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), data);
  };
  return { root, script, items, write };
}

test("agents to fall back to need consent, whatever they are: no flag replaces them", async () => {
  const { items } = repository("agent: claude\nerrors:\n  fallback:\n    agents: [codex]\n");
  expect((await items()).map(({ key }) => key)).toEqual(["errors.fallback.agents"]);
});

test("tags need consent, because they enter the prompt", async () => {
  const { items } = repository("impl:\n  tags: [feat, ignore-what-was-said]\n");
  expect(await items()).toMatchObject([{ key: "impl.tags", danger: "prompt" }]);
});

test("a script has the same digest in the checkout and in a worktree, as long as its bytes are the same", () => {
  const { root, script, write } = repository("");
  const [first] = agentFileItems({ agents: ["command:./x.sh"], root });
  expect(first).toMatchObject({ key: "x.sh", files: [{ name: "x.sh", text: "echo one\n" }] });
  write("tree/x.sh", "echo one\n");
  const inTree = () => agentFileItems({ agents: ["command:./x.sh"], root, worktree: join(root, "tree") })[0]?.digest;
  expect(inTree()).toBe(first?.digest);
  script("echo two\n");
  expect(inTree()).toBe(first?.digest);
  write("tree/x.sh", "echo two\n");
  expect(inTree()).not.toBe(first?.digest);
});

test("programs that differ in non-text bytes have different digests", () => {
  const { root, write } = repository("");
  const digestOf = (byte: number) => {
    write("program", Buffer.from([0x7f, byte]));
    return agentFileItems({ agents: ["command:./program"], root })[0]?.digest;
  };
  expect(digestOf(0xfe)).not.toBe(digestOf(0xff));
});

test.each([
  "./x.sh;true",
  "./x.sh|cat",
  "(./x.sh)",
  "sh<x.sh",
  ". ./x.sh&&true",
  "$PWD/x.sh",
  'sh "${PWD}/x.sh"',
  "echo `./x.sh`",
  "A=1 sh -c './x.sh;true'",
])("a changed script needs consent again: %s", (command) => {
  const { root, script } = repository("");
  const digest = () => agentFileItems({ agents: [`command:${command}`], root })[0]?.digest;
  const before = digest();
  expect(before).toBeDefined();
  script("echo two\n");
  expect(digest()).not.toBe(before);
});

test.each([
  "./x.sh | tee agent.log",
  "./x.sh | tee -a agent.log > greet.txt 2>> README.md",
  "./x.sh --read README.md",
  "./x.sh --read=README.md < greet.txt >| agent.log",
  "sh x.sh README.md",
  "sh ./x.sh > tool.sh",
  "./x.sh &>tool.sh",
  "./x.sh | tee tool.sh",
])("only files that a command executes count: %s", (command) => {
  const { root, write } = repository("");
  for (const name of ["agent.log", "README.md", "greet.txt", "tool.sh"]) write(name, "text\n");
  const keys = agentFileItems({ agents: [`command:${command}`], root }).map(({ key }) => key);
  expect(keys).toEqual(["x.sh"]);
});

test.each([
  ["build", "build --all"],
  ["build", "A=1 env B=2 nice -n 5 ./build"],
  ["build", "python3 -W ignore build README.md"],
  ["build", "true && { source build; }"],
  ["build", "if true; then ./build; fi"],
  ["tool.mjs", "my-agent --hook=tool.mjs"],
  ["tool.mjs", "echo x > tool.mjs; node tool.mjs"],
  ["tool", "my-agent --hook tool"],
  ["a;b", "'./a;b' README.md"],
])("%s counts as executed by: %s", (name, command) => {
  const { root, write } = repository("");
  for (const file of ["build", "tool.mjs", "tool", "a;b", "README.md"]) write(file, "text\n");
  chmodSync(join(root, "tool"), 0o755);
  const keys = agentFileItems({ agents: [`command:${command}`], root }).map(({ key }) => key);
  expect(keys).toEqual([name]);
});

test.each([
  [true, 'command:"$(pwd)/x.sh"'],
  [true, "command:cd scripts && ./b.sh"],
  [true, "command:npm run agent"],
  [true, "command:A=1 env make agent"],
  [true, "command:./x*.sh"],
  [true, "command:./x\\.sh"],
  [true, "command:echo `./x.sh`"],
  [true, "command:python3 -m agent"],
  [true, "acp:sh -ec './x.sh'"],
  [false, "command:./x.sh --make | tee npm"],
  [false, "command:python3 agent.py"],
  [false, "claude:opus[1m]"],
  [false, "scripted:a*.json"],
])("a command starts unknown files: %s for %s", (expected, agent) => {
  expect(startsUnknown(agent)).toBe(expected);
});

test("an argument that became a file after the start does not count, a program does", () => {
  const { root, write } = repository("");
  const agent = "command:my-agent --out out.js; ./later.sh";
  const argumentsAtStart = argumentFiles(agent, root);
  for (const file of ["out.js", "later.sh"]) write(file, "text\n");
  const keys = agentFileItems({ agents: [agent], root, argumentsAtStart }).map(({ key }) => key);
  expect(keys).toEqual(["later.sh"]);
});

describe("project files of agents", () => {
  test.each([
    ["claude", ".claude/settings.json"],
    ["claude:opus", ".mcp.json"],
    ["claude", ".claude/skills/a/SKILL.md"],
    ["codex", ".codex/config.toml"],
    ["copilot", ".github/hooks/start.json"],
    ["gemini", ".gemini/settings.json"],
    ["opencode", ".opencode/plugin/a.ts"],
    ["pi", ".pi/extensions/a.ts"],
    ["qwen", ".qwen/settings.json"],
    ["command:npx claude -p", ".claude/settings.json"],
    ["acp:gemini --acp", ".gemini/settings.json"],
  ])("%s loads %s", (agent, path) => {
    const { root, write } = repository("");
    write(path, "{}");
    expect(agentFileItems({ agents: [agent], root })).toMatchObject([{ key: path, danger: "loads" }]);
    expect(agentFileItems({ agents: ["command:./y.sh"], root })).toEqual([]);
  });

  test("every distributed agent has its files in the table", () => {
    expect(Object.keys(PROJECT_FILES).toSorted()).toEqual([...AGENT_PROGRAMS].toSorted());
  });

  test("a script that a hook starts is part of the digest, one that a permission names is not", () => {
    const { root, script, write } = repository("");
    const command = '"$CLAUDE_PROJECT_DIR"/x.sh';
    write(".claude/settings.json", JSON.stringify({ hooks: { Stop: [{ hooks: [{ type: "command", command }] }] } }));
    const digest = () => agentFileItems({ agents: ["claude"], root })[0]?.digest;
    const before = digest();
    script("echo two\n");
    expect(digest()).not.toBe(before);
    write(".claude/settings.json", JSON.stringify({ permissions: { allow: ["Bash(./x.sh)"] } }));
    const permitted = digest();
    script("echo three\n");
    expect(digest()).toBe(permitted);
  });

  test.each([
    [".mcp.json", '{ "mcpServers": { "a": { "cmd": ["bun", "tool"] } } }'],
    [".claude/settings.json", '{\n  // don\'t\n  "awsAuthRefresh": "sh \\u002e/tool --now"\n}'],
    [".codex/config.toml", "notify = [\n  'python3',\n  'tool',\n]\n"],
    [".github/lsp.json", '{ "lspServers": { "a": { "command": "./tool" } } }'],
  ])("every file that %s names is part of the digest, but for texts", (path, text) => {
    const { root, write } = repository("");
    write(path, `${text}\n# "README.md"\n`);
    write("tool", "one\n");
    write("README.md", "one\n");
    const digest = () => agentFileItems({ agents: ["claude", "codex", "copilot"], root })[0]?.digest;
    const before = digest();
    expect(before).toBeDefined();
    write("README.md", "two\n");
    expect(digest()).toBe(before);
    write("tool", "two\n");
    expect(digest()).not.toBe(before);
  });

  test("files that users do not commit count in a worktree only", () => {
    const { root, write } = repository("");
    for (const folder of ["", "tree/"]) write(`${folder}.claude/settings.local.json`, "{}");
    expect(agentFileItems({ agents: ["claude"], root })).toEqual([]);
    expect(agentFileItems({ agents: ["claude"], root, worktree: join(root, "tree") })).toHaveLength(1);
  });
});
