import { describe, expect, test } from "vitest";
import { DEFAULT_WORK } from "../../config/work-settings.ts";
import { type Found, firstRun, guessGate, planSetup } from "./setup.ts";

describe("plan setup", () => {
  const CAPABILITIES = {
    resume: true,
    forkAtMessage: false,
    chooseSession: false,
    usage: true,
    cost: false,
    structuredOutput: false,
  };
  const agent = (name: string, installed: boolean, problem: string | null) => ({
    name,
    capabilities: CAPABILITIES,
    probe: { installed, version: null, problem, hint: null },
  });
  const found: Found = {
    agents: [agent("claude", true, "no login"), agent("codex", true, null), agent("gemini", true, null)],
    forge: null,
    setup: { command: "npm ci", why: "it says so" },
    gate: { command: "npm test", why: "it says so" },
    now: { ...DEFAULT_WORK, setup: null },
  };

  test("the first agent that is ready, the guessed set-up and the guessed gate", () => {
    expect(planSetup(found, {})).toEqual({
      agent: "codex",
      setup: "npm ci",
      gate: "npm test",
      forge: "auto",
      edits: [
        { key: ["agent"], value: "codex" },
        { key: ["workspace", "setup"], value: "npm ci" },
        { key: ["impl", "gate"], value: "npm test" },
      ],
    });
    const nothing = { ...found, agents: [agent("codex", false, null)], setup: null, gate: null };
    expect(planSetup(nothing, {}).edits).toEqual([]);
  });

  test("settings of the file are kept, and flags take precedence", () => {
    const impl = { ...DEFAULT_WORK.impl, gate: "make" };
    const now = { ...DEFAULT_WORK, agent: "claude:opus", impl, setup: ["make deps"] };
    expect(planSetup({ ...found, now }, {}).edits).toEqual([]);
    expect(
      planSetup({ ...found, now }, { agent: "gemini", gate: "none", forge: "github", reviewModel: "codex" }),
    ).toEqual({
      agent: "gemini",
      setup: "make deps",
      gate: "make",
      forge: "github",
      edits: [
        { key: ["agent"], value: "gemini" },
        { key: ["models", "review"], value: "codex" },
        { key: ["forge", "kind"], value: "github" },
      ],
    });
  });

  test("a set-up that the user declined, in the file or by an answer, is not proposed", () => {
    const declined = { ...found, now: { ...found.now, setup: [] } };
    expect(planSetup(declined, {})).toMatchObject({ setup: null });
    expect(planSetup(found, { setup: "none" })).toMatchObject({ setup: null });
    for (const plan of [planSetup(declined, {}), planSetup(found, { setup: "none" })])
      expect(plan.edits.map(({ key }) => key.join("."))).toEqual(["agent", "impl.gate"]);
  });
});

test("the first run works on a task where there is no forge", () => {
  expect(firstRun({ forge: null })).toBe('run --task "WHAT TO DO" --dry-run');
  expect(firstRun({ forge: { name: "github", location: "x", login: null, fix: null } })).toBe("run ISSUE --dry-run");
});

describe("guess gate", () => {
  const scripts = (test: string) => JSON.stringify({ scripts: { test } });

  test.each([
    [{}, null],
    [{ "package.json": scripts("vitest") }, "npm test"],
    [{ "package.json": scripts("vitest"), "pnpm-lock.yaml": "x" }, "pnpm test"],
    [{ "package.json": scripts("vitest"), "yarn.lock": "x" }, "yarn test"],
    [{ "package.json": scripts("jest"), "bun.lock": "x" }, "bun run test"],
    [{ "package.json": scripts('echo "Error: no test specified" && exit 1') }, null],
    [{ "package.json": "not json", Makefile: "all: a\ncheck: b\n" }, "make check"],
    [{ Makefile: "check:\n\ttrue\ntest:\n\ttrue\n" }, "make test"],
    [{ Makefile: "test := 1\ntested: x\n" }, null],
    [{ "pyproject.toml": '[dependency-groups]\ndev = ["pytest>=8"]\n' }, "python3 -m pytest -q"],
    [{ "pyproject.toml": "[tool.pytest.ini_options]\n", "uv.lock": "x" }, "uv run pytest -q"],
    [{ "pytest.ini": "[pytest]\n", "requirements.txt": "pytest\n" }, ".venv/bin/python -m pytest -q"],
    [{ "pyproject.toml": "[project]\n" }, null],
    [{ "tox.ini": "[tox]" }, "tox"],
    [{ "Cargo.toml": "[package]" }, "cargo test"],
    [{ "go.mod": "module x" }, "go test ./..."],
  ])("%j", (files: Readonly<Record<string, string>>, command) => {
    expect(guessGate((name) => files[name] ?? "")?.command ?? null).toBe(command);
  });
});
