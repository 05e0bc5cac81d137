import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AGENT_LIST, AGENT_NAMES, AGENT_PROGRAMS } from "@holdfast/core/agent";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { gitIn } from "./demo-repository.ts";

/** Runs with our own programs instead of the real agents. */

let holdfast: BuiltCommand;
let repository: string;
let bin: string;
let count = 0;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 60_000);
afterAll(() => holdfast.remove());

beforeEach(async () => {
  count += 1;
  repository = join(holdfast.directory, `repo-${count}`);
  bin = join(holdfast.directory, `bin-${count}`);
  for (const folder of [repository, bin]) mkdirSync(folder);
  await gitIn(repository, { PATH: process.env["PATH"] ?? "" })("init", "-q");
});

function program(name: string, ...lines: readonly string[]): void {
  writeFileSync(join(bin, name), ["#!/bin/sh", ...lines, ""].join("\n"));
  chmodSync(join(bin, name), 0o755);
}

const READY = '[ "$1" = auth ] && echo \'{"loggedIn": true}\' || echo "9.8.7 (Claude Code)"';
const LOGGED_OUT = '[ "$1" = login ] && { echo "Not logged in"; exit 1; } || echo "codex-cli 4.5.6"';

function run(...args: readonly string[]) {
  // Of the machine's own agents and logins nothing: only git and a shell.
  const PATH = `${bin}:${dirname(process.execPath)}:/usr/bin:/bin`;
  return holdfast.run(args, { cwd: repository, env: { PATH } });
}

const script = (answer: object): string => {
  writeFileSync(join(repository, "script.json"), JSON.stringify({ answers: [answer] }));
  return "scripted:script.json";
};

test("doctor has a line for each agent, with the fix", async () => {
  program("claude", READY);
  program("codex", LOGGED_OUT);
  const { stdout, status } = await run("doctor");
  expect(status).toBe(0);
  expect(stdout).toMatch(/^ok +claude +9\.8\.7, ready$/m);
  expect(stdout).toMatch(/^warn +codex +4\.5\.6, Codex is not logged in\n +fix: Log in with `codex login`/m);
  expect(stdout).toMatch(/^missing +gemini +not installed\n +fix: Install it: `npm install -g @google\/gemini-cli`/m);
  for (const name of AGENT_PROGRAMS) expect(stdout).toMatch(new RegExp(`^(?:ok|warn|missing) +${name} `, "m"));
});

test("doctor knows a program of the user that the config names as the agent", async () => {
  const config = join(repository, "holdfast.config.yaml");
  writeFileSync(config, "agent: command:sh agent.sh\n");
  expect((await run("--trust", "doctor")).stdout).toMatch(/^ok +agents +the config names command:sh agent\.sh$/m);
  // A run starts it at the root of its worktree, so the current directory does not matter.
  writeFileSync(config, "agent: command:./agent.sh\n");
  writeFileSync(join(repository, "agent.sh"), "true\n");
  mkdirSync(join(repository, "folder"));
  const below = await holdfast.run(["--trust", "doctor"], { cwd: join(repository, "folder") });
  expect(below.stdout).toMatch(/^ok +agents +the config names command:\.\/agent\.sh$/m);
  writeFileSync(config, "agent: command:./gone.sh\n");
  expect((await run("--trust", "doctor")).stdout).toMatch(
    /^warn +agents +the config names \S+ and \.\/gone\.sh does not\s+exist$/m,
  );
});

describe("agents", () => {
  test("an agent that is too old is shown with the upgrade, and a run with it is refused before a call", async () => {
    program("claude", `touch ${join(bin, "called-$1")}; echo "2.0.72 (Claude Code)"`);
    const { stdout } = await run("agents");
    expect(stdout).toMatch(/^claude +2\.0\.72 +2\.0\.73 +too old/m);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("Upgrade it: `npm install -g @anthropic-ai/claude-code@latest`");
    const refused = await run("run", "--task", "x", "--workflow", "ralph", "--until", "true", "--agent", "claude");
    expect(refused.status, refused.stdout + refused.stderr).toBe(4);
    expect(refused.stderr).toMatch(/2\.0\.72 is too old: Holdfast needs 2\.0\.73 or newer/);
    expect(refused.stderr).toContain("npm install -g @anthropic-ai/claude-code@latest");
    expect(existsSync(join(bin, "called---print"))).toBe(false);
  });

  test("resume refuses an agent that is too old by now, and warns of one whose version cannot be read", async () => {
    const claude = (version: string): void =>
      program(
        "claude",
        `[ "$1" = --version ] && { echo "${version}"; exit; }`,
        `[ "$1" = auth ] && { echo '{"loggedIn": true}'; exit; }`,
        `echo call >> ${join(bin, "calls")}; exit 127`,
      );
    const calls = (): string => (existsSync(join(bin, "calls")) ? readFileSync(join(bin, "calls"), "utf8") : "");
    const git = gitIn(repository, { PATH: process.env["PATH"] ?? "" });
    for (const [key, value] of Object.entries({ "user.name": "A", "user.email": "a@example.com" }))
      await git("config", key, value);
    await git("commit", "-q", "--allow-empty", "-m", "first");
    claude("nightly (Claude Code)");
    const loop = ["--workflow", "ralph", "--until", "false", "--agent", "claude"];
    const started = await run("run", "--task", "x", ...loop);
    const said = (started.stdout + started.stderr).replaceAll(/\s+/g, " ");
    expect(said).toMatch(/claude reports no version, .* 2\.0\.73 or newer/);
    expect(calls()).not.toBe("");
    const before = calls();
    const [{ id }] = JSON.parse((await run("--json", "list")).stdout).runs;
    claude("2.0.72 (Claude Code)");
    const refused = await run("resume", id);
    expect(refused.status, refused.stdout + refused.stderr).toBe(4);
    expect(refused.stderr).toMatch(/2\.0\.72 is too old: Holdfast needs 2\.0\.73 or newer/);
    expect(calls()).toBe(before);
    claude("nightly (Claude Code)");
    const resumed = await run("resume", id);
    expect(resumed.stdout.replaceAll(/\s+/g, " ")).toMatch(/Warning: claude reports no version/);
    expect(calls()).not.toBe(before);
  });

  test("lists each agent with its capabilities", async () => {
    program("claude", READY);
    program("codex", LOGGED_OUT);
    const { stdout } = await run("agents");
    expect(stdout).toMatch(/^claude +9\.8\.7 +2\.0\.73 +ready +resume, rewind, own ids/m);
    expect(stdout).toMatch(/^codex +4\.5\.6 +0\.78\.0 +not ready +resume, tokens$/m);
    expect(stdout).toMatch(/^codex: Codex is not logged in\. Log in with/m);
    expect(stdout.split("\n").every((line) => line.length <= 80)).toBe(true);
    const { agents } = JSON.parse((await run("--json", "agents")).stdout);
    expect(agents.map(({ name }: { name: string }) => name)).toEqual(AGENT_NAMES);
    expect(agents[1]).toMatchObject({ version: "9.8.7", problem: null, capabilities: { forkAtMessage: true } });
  });

  test("a test reports its result", async () => {
    const { status, stdout } = await run("agents", "test", "command:sed -n 2p > hello.txt", "--yes");
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ok +command:.* wrote the requested file$/m);
    expect(stdout).toMatch(/^cost +tokens unknown, cost unknown$/m);
    expect(stdout).toMatch(/^time +\d+ s$/m);
    expect(existsSync(join(repository, "hello.txt"))).toBe(false);
  });

  test("tokens, money and other written files are reported", async () => {
    const usage = { input: 1200, output: 34, microUsd: 5400 };
    const agent = script({ edits: [{ do: "write", path: "other.txt", text: "x" }], usage, reply: "done" });
    const { status, stdout } = await run("agents", "test", agent, "--yes");
    expect(status).toBe(1);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("exited without an error, but did not write the requested file");
    expect(stdout).toMatch(/^also +it left other files: other\.txt$/m);
    expect(stdout).toMatch(/^cost +1234 tokens \(1200 in, 34 out\), \$0\.0054$/m);
    const json = JSON.parse((await run("agents", "test", agent, "--yes", "--json")).stdout);
    expect(json).toMatchObject({
      agent,
      ok: false,
      wrote: false,
      others: ["other.txt"],
      outcome: { kind: "completed" },
    });
  });

  test.each([
    ["rate_limit", 7],
    ["network", 7],
    ["auth", 4],
    ["billing", 4],
    ["context_too_long", 4],
  ])("%s: status %i", async (cause, expected) => {
    const { status, stdout } = await run("agents", "test", script({ fail: { cause, message: "no" } }), "--yes");
    expect([status, stdout]).toEqual([expected, expect.stringContaining(`failed (${cause})`)]);
  });

  test("nothing is spent without consent", async () => {
    const agent = "command:touch /nonexistent/x; exit 3";
    const asked = await run("agents", "test", agent);
    expect([asked.status, asked.stdout]).toEqual([4, ""]);
    expect(asked.stderr).toContain("--yes");
    const plan = await run("agents", "test", agent, "--dry-run");
    expect(plan).toMatchObject({ status: 0, stdout: expect.stringMatching(/for 5\s+min at most/) });
    expect(plan.stdout).toContain("hello.txt");
  });

  test("an unknown agent is refused with the known ones", async () => {
    for (const args of [
      ["agents", "test", "cluade", "--yes"],
      ["setup", "--agent", "cluade", "--yes"],
      ["run", "--task", "x", "--agent", "cluade"],
    ]) {
      const { status, stderr } = await run(...args);
      expect([status, stderr]).toEqual([
        2,
        expect.stringContaining(`Did you mean claude? Give provider:model with one of ${AGENT_LIST}`),
      ]);
    }
    expect((await run("agents", "test")).stderr).toContain(AGENT_LIST);
    expect((await run("agents", "list", "claude")).status).toBe(2);
  });

  test("an unknown workflow is refused with the known ones, without a path of Holdfast's own files", async () => {
    const { status, stderr } = await run("run", "--task", "x", "--workflow", "rlaph", "--agent", "command:true");
    expect([status, stderr]).toEqual([
      2,
      'error: There is no workflow and no file "rlaph"\nhint:  Did you mean ralph? One of: impl, crunch, ralph, the path of a file.\n',
    ]);
  });

  test("the help of run and resume names them", async () => {
    for (const name of ["run", "resume"])
      expect((await run(name, "--help")).stdout.replaceAll(/\s+/g, " ")).toContain(AGENT_LIST);
  });
});

describe("setup", () => {
  const config = (): string => readFileSync(join(repository, "holdfast.config.yaml"), "utf8");

  test("writes its detections, once", async () => {
    program("claude", READY);
    writeFileSync(join(repository, "Makefile"), "test:\n\ttrue\n");
    writeFileSync(join(repository, "go.mod"), "module x\n");
    const { status, stdout } = await run("setup", "--yes");
    expect(status).toBe(0);
    expect(stdout).toMatch(/^agent +claude \(9\.8\.7, ready\)$/m);
    expect(stdout).toMatch(/^gate +make test \(the Makefile has a target test\)$/m);
    expect(stdout).toMatch(/^set-up +go mod download \(there is a go\.mod\)$/m);
    expect(config()).toMatch(
      /^# .*\nagent: claude\nworkspace:\n {2}setup: go mod download\nimpl:\n {2}gate: make test\n$/,
    );
    expect((await run("config", "check")).status).toBe(0);
    const again = await run("setup", "--yes");
    expect(again).toMatchObject({ status: 0, stdout: expect.stringContaining("needs no change") });
  });

  test("without an agent it writes nothing that it only detected", async () => {
    writeFileSync(join(repository, "go.mod"), "module x\n");
    for (const more of [["--yes"], []])
      expect(await run("setup", ...more)).toMatchObject({
        status: 4,
        stdout: expect.stringContaining("Nothing was written: no agent was found.\n"),
      });
    expect(existsSync(join(repository, "holdfast.config.yaml"))).toBe(false);
    expect(await run("setup", "--yes", "--forge", "none")).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^forge +none, as you chose/m),
      stderr: expect.stringContaining("No agent is ready."),
    });
    expect(config()).toContain("kind: none");
  });

  test("a command agent whose program cannot run is refused, and one that can is not tested", async () => {
    const script = join(repository, "agent.sh");
    writeFileSync(script, "#!/bin/sh\n", { mode: 0o644 });
    for (const [agent, says] of [
      ["command:/nosuch.sh --fast", "/nosuch.sh does not exist"],
      ["command:./nosuch.sh", "./nosuch.sh does not exist"],
      ["command:nosuch", "nosuch is not on PATH"],
      [`command:${script}`, "is not executable"],
    ] as const)
      expect(await run("setup", "--yes", "--agent", agent)).toMatchObject({
        status: 2,
        stderr: expect.stringContaining(says),
      });
    expect((await run("setup", "--yes", "--agent", "command:./agent.sh")).stderr).toContain("chmod +x ./agent.sh");
    expect(existsSync(join(repository, "holdfast.config.yaml"))).toBe(false);
    chmodSync(script, 0o755);
    const { status, stderr } = await run("setup", "--yes", "--agent", "command:./agent.sh");
    expect([status, stderr]).toEqual([0, 'Next: holdfast run --task "WHAT TO DO" --dry-run\n']);
  });

  test("a directory that is not in a repository is reported", async () => {
    rmSync(join(repository, ".git"), { recursive: true });
    const { stderr } = await run("setup", "--yes");
    expect(stderr.replaceAll(/\s+/g, " ")).toContain("is not in a git repository. Make it one: `git init && git add");
  });

  test("without a terminal it shows the file and writes nothing", async () => {
    program("claude", READY);
    const shown = await run("setup");
    expect([shown.status, shown.stdout, shown.stderr]).toEqual([
      2,
      expect.stringContaining("agent: claude\n"),
      expect.stringContaining("--yes"),
    ]);
    expect((await run("setup", "--dry-run")).status).toBe(0);
    const json = await run("--json", "setup");
    expect([json.status, JSON.parse(json.stdout)]).toEqual([
      2,
      expect.objectContaining({ written: false, agent: "claude" }),
    ]);
    expect(existsSync(join(repository, "holdfast.config.yaml"))).toBe(false);
  });

  test("keeps the content of a file, including its comments", async () => {
    program("claude", READY);
    const before = "# ours\nagent: codex # for a reason\nimpl:\n  # slow\n  maxReviews: 2\n";
    writeFileSync(join(repository, "holdfast.config.yaml"), before);
    expect((await run("setup", "--yes", "--gate", "npm test")).status).toBe(0);
    expect(config()).toBe(before.replace("impl:\n", "impl:\n  gate: npm test\n"));
    await run("setup", "--yes", "--agent", "claude:opus", "--review-model", "codex", "--forge", "none");
    expect(config()).toContain("agent: claude:opus # for a reason\n");
    expect(config()).toMatch(/models:\n {2}review: codex\nforge:\n {2}kind: none\n$/);
  });

  test("an invalid file stays unchanged", async () => {
    writeFileSync(join(repository, "holdfast.config.yaml"), "agnet: claude\n");
    expect(await run("setup", "--yes")).toMatchObject({ status: 2, stdout: "" });
    expect(config()).toBe("agnet: claude\n");
  });

  test("without an agent it reports that", async () => {
    const { status, stdout, stderr } = await run("setup", "--yes");
    expect([status, stdout, stderr]).toEqual([
      4,
      expect.stringMatching(/^agent +none is ready/m),
      expect.stringMatching(
        /^No agent is ready\. Set one up, such as claude\. Install it: `npm install -g @anthropic-ai\/claude-code`.*\nAny other program works too: holdfast setup --agent command:PROGRAM\nShow what each needs: holdfast agents\n$/,
      ),
    ]);
  });
});
