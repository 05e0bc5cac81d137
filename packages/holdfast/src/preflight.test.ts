import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { firstProgram } from "./observe-start.ts";
import { PREFLIGHT, judgeStart, preflightError } from "./preflight.ts";
import type { StartFacts } from "./preflight-facts.ts";

const fine: StartFacts = {
  work: { kind: "issue", number: 1 },
  forgeUse: "optional",
  run: "issue-1",
  again: false,
  repository: {
    checkout: { root: "/shop", head: "a", branch: "refs/heads/main", operation: null, changed: [], hasIdentity: true },
    remote: { name: "origin", url: "https://github.com/octo/app.git" },
    host: "github.com",
    unreachable: null,
    base: { kind: "found", branch: "main", commit: "a", hasHead: true },
    branch: { name: "holdfast/issue-1", taken: null, blockedBy: null },
    occupied: null,
  },
  needsFiles: false,
  isForgeDeclined: false,
  forWorkers: false,
  forge: { name: "github", location: "https://github.com/octo/app" },
  forgeError: null,
  issue: "open",
  agents: [
    {
      name: "codex",
      provider: "codex",
      probe: { installed: true, version: "1.0.0", problem: null, hint: null },
      version: { needs: "0.78.0", verdict: "ok" },
      fallback: false,
    },
  ],
  unnamedAgent: null,
  commands: [],
  roles: [
    { role: "impl", agent: "codex" },
    { role: "review", agent: "codex" },
  ],
  folders: [{ path: "/shop", problem: null, freeBytes: 50 * 1024 ** 3 }],
};

const checksOf = (facts: Partial<StartFacts>, how = {}) =>
  judgeStart({ ...fine, ...facts }, how).map(({ check, level }) => `${level} ${check}`);

describe("preflight", () => {
  test("nothing is found where nothing is wrong", () => {
    expect(judgeStart(fine)).toEqual([]);
    expect(preflightError([])).toBeNull();
  });

  test("names are unique, errors have a code and notices have none", () => {
    expect(new Set(PREFLIGHT.map(({ check }) => check)).size).toBe(PREFLIGHT.length);
    for (const { level, code } of PREFLIGHT) expect(code === null).toBe(level === "notice");
  });

  const { repository } = fine;
  if (repository === null) throw new TypeError("the sample has a repository");
  const unreachable = { cause: "network", message: "fatal: no route\n" } as const;
  const missing = { installed: false, version: null, problem: "codex is not on PATH", hint: "Install it." };
  const [agent] = fine.agents;
  test.each([
    ["a closed issue with --again", { issue: "closed", again: true }, []],
    ["an unreachable remote with a forge", { repository: { ...repository, unreachable } }, ["error remote"]],
    [
      "an unreachable remote without a forge",
      { work: { kind: "task", text: "x" }, forge: null, issue: null, repository: { ...repository, unreachable } },
      ["notice offline", "notice no_forge"],
    ],
    [
      "a task where the user chose to have no forge",
      { work: { kind: "task", text: "x" }, forge: null, isForgeDeclined: true, issue: null },
      [],
    ],
    [
      "a task that must become an issue, without a remote",
      {
        work: { kind: "task", text: "x" },
        forgeUse: "required",
        forge: null,
        issue: null,
        repository: { ...repository, remote: null, host: null },
      },
      ["error forge"],
    ],
    [
      "a clone of another checkout",
      { forge: { name: "local", location: "/home/a/shop/.git/holdfast-forge" } },
      ["notice local_forge"],
    ],
    ["a clone of a bare repository", { forge: { name: "local", location: "/srv/shop.git/holdfast-forge" } }, []],
    [
      "a loop in a clone of another checkout, which pushes nothing",
      {
        work: { kind: "task", text: "x" },
        forgeUse: "none",
        issue: null,
        forge: { name: "local", location: "/home/a/shop/.git/holdfast-forge" },
      },
      [],
    ],
    [
      "no identity in git",
      {
        repository: {
          ...repository,
          checkout: { root: "/shop", head: "a", branch: null, operation: null, changed: [], hasIdentity: false },
        },
      },
      ["notice identity"],
    ],
    [
      "a program of the user that also reviews",
      {
        roles: [
          { role: "impl", agent: "command:./a.sh" },
          { role: "review", agent: "command:./a.sh" },
        ],
      },
      ["notice command_review"],
    ],
    [
      "a reviewer that the user chose",
      {
        roles: [
          { role: "impl", agent: "codex" },
          { role: "review", agent: "command:./review.sh" },
        ],
      },
      [],
    ],
    ["a bare repository", { repository: { ...repository, checkout: null } }, []],
    ["a full disk", { folders: [{ path: "/shop", problem: null, freeBytes: 1024 }] }, ["error disk_full"]],
    ["little space", { folders: [{ path: "/shop", problem: null, freeBytes: 1024 ** 3 - 1 }] }, ["notice low_disk"]],
    [
      "a folder in a cloud",
      { folders: [{ path: "/home/a/Dropbox/shop", problem: null, freeBytes: 1024 ** 4 }] },
      ["notice cloud_folder"],
    ],
    ["a missing agent", { agents: [{ ...agent, probe: missing, version: null }] }, ["error agent_missing"]],
    [
      "a missing agent to fall back to",
      { agents: [{ ...agent, probe: missing, version: null, fallback: true }] },
      ["notice fallback_agent"],
    ],
    [
      "a version that cannot be read",
      { agents: [{ ...agent, version: { needs: "0.78.0", verdict: "unknown" } }] },
      ["notice agent_version"],
    ],
  ] as const)("%s", (_name, facts, found) => {
    // The table is constant, so its types are narrower than the facts.
    expect(checksOf(facts as Partial<StartFacts>)).toEqual(found);
  });

  test("where the forge cannot be used, a task is offered the way without one, and an issue is not", () => {
    const forgeError = new HoldfastError({ code: "FORGE_DENIED", message: "no login", hint: "Log in." });
    const broken = { forgeError, repository: { ...repository, unreachable } };
    const hintsOf = (work: StartFacts["work"]) => judgeStart({ ...fine, ...broken, work }).map(({ hint }) => hint);
    const way = expect.stringContaining("`holdfast setup --yes --forge none`");
    expect(hintsOf({ kind: "task", text: "x" })).toEqual([way, way]);
    expect(hintsOf({ kind: "issue", number: 1 })).toEqual([expect.not.stringContaining("forge none"), "Log in."]);
  });

  test("the hint for a directory that cannot be written fits the problem", () => {
    const hintOf = (path: string, problem: string) =>
      judgeStart({ ...fine, folders: [{ path, problem, freeBytes: null }] })[0]?.hint ?? "";
    const readOnly = hintOf("/shop/.git", "the file system is read-only");
    expect(readOnly).toBe("Mount it for writing, or clone the repository to another disk.");
    expect(hintOf("/shop/.git", "permission denied")).toBe("Look at its owner and permissions: `ls -ld /shop/.git`.");
    expect(hintOf("/trees", "permission denied")).toContain("`workspace.worktrees` in holdfast.config.yaml");
  });

  test("a run for workers needs no program on this machine, but the name of its agent", () => {
    const agents = fine.agents.map((each) => ({ ...each, probe: missing, version: null }));
    const gate = { role: "The gate", line: "pytest", program: "pytest", problem: "missing", here: null } as const;
    const commands = [{ ...gate, where: "system", isAgent: false } as const];
    expect(checksOf({ agents, commands })).toEqual(["error agent_missing", "error command"]);
    expect(checksOf({ agents, commands, forWorkers: true })).toEqual([]);
    const [unnamed] = judgeStart({ ...fine, unnamedAgent: { ready: [], hint: "Install one." }, forWorkers: true });
    expect(unnamed).toMatchObject({ check: "no_agent", hint: expect.stringContaining("`--agent claude`") as string });
  });

  test("a dry run needs no agent, and --wait waits for space", () => {
    const agents = fine.agents.map((each) => ({ ...each, probe: missing, version: null }));
    const folders = [{ path: "/shop", problem: null, freeBytes: 0 }];
    expect(checksOf({ agents, folders }, { dryRun: true })).toEqual(["error disk_full", "notice agent_missing"]);
    expect(checksOf({ agents, folders }, { wait: true })).toEqual(["error agent_missing", "notice disk_full"]);
  });

  test.each([
    ["npm test", "npm"],
    ["CI=1 FOO=bar npx vitest run", "npx"],
    ["./scripts/check.sh --fast", "./scripts/check.sh"],
    ["n=$(cat answer.txt); test $n = 9", null],
    ['TEXT="a b" npm test', null],
    ["test -f answer.txt", null],
    ["[ -f answer.txt ]", null],
    ["cd web && npm test", null],
    ['"$HOME/bin/check"', null],
    ["(npm test)", null],
    ["", null],
  ])("the first program of %j is %j", (line, program) => {
    expect(firstProgram(line)).toBe(program);
  });
});
