import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { sha256 } from "@holdfast/core/json";
import { openLocalForge } from "@holdfast/forges/local";
import { findProgram } from "@holdfast/platform/subprocess";
import type { Finished } from "@holdfast/test-support/built-command";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { type GithubScene, createGithubScene } from "@holdfast/test-support/forges/forge-scenes";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { systemClock } from "@holdfast/platform/clock";
import { PREFLIGHT } from "../src/preflight.ts";
import { mountSmall, whyNoMount } from "./faults/harness/mounted.ts";

/** A real situation in which a newcomer types the command, and what it answers. */
interface Situation {
  readonly name: string;
  /** The row of the table. */
  readonly check: string;
  /** Makes the situation and returns how the command is started. */
  prepare(place: WorkPlace): Promise<Typed> | Typed;
  readonly status: number;
  readonly says: string;
  readonly hint: string;
  /** What a dry run returns; default: the same. A dry run calls no agent, so a missing one is a notice. */
  readonly dry?: number;
}

interface Typed {
  /** Default: issue 1 with an agent that does nothing. */
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const work = workSuite();
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const TASK = ["run", "--task", "Say hello", "--agent", "command:true", "--no-review"];
const ISSUE = ["run", "1", "--agent", "command:true", "--no-review"];

/** PATH without any agent and without gh, but with these programs. */
function onlyPrograms(place: WorkPlace, scripts: Readonly<Record<string, string>> = {}): Record<string, string> {
  const bin = join(place.clone, "..", "bin");
  mkdirSync(bin, { recursive: true });
  for (const name of ["git", "sh", "env"]) symlinkSync(findProgram(name) ?? "", join(bin, name));
  symlinkSync(process.execPath, join(bin, "node"));
  for (const [name, script] of Object.entries(scripts)) {
    rmSync(join(bin, name), { force: true });
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return { PATH: bin };
}

async function github(change: (scene: GithubScene) => Partial<Typed> | void = () => {}): Promise<Typed> {
  const scene = await createGithubScene(null);
  closing.push(() => scene.dispose());
  const at = "2026-01-01T00:00:00Z";
  const issue = { author: "dev", title: "Answer", body: "What is it?\n", createdAt: at, updatedAt: at } as const;
  scene.repository.issues.push({ ...issue, number: 1, state: "open", labels: [] });
  const changed = change(scene) ?? {};
  const { cwd, env } = scene.clone();
  return { cwd, env: { ...env, ...changed.env }, args: ISSUE };
}

const answer = (body: object, headers: Record<string, string> = {}) =>
  ({
    match: /^GET \/repos\/octo\/app$/,
    times: 9,
    when: "before",
    effect: { kind: "answer", status: 200, headers, body },
  }) as const;
const REPOSITORY = { full_name: "octo/app", default_branch: "main" };

const ERRORS: readonly Situation[] = [
  {
    name: "not a repository",
    check: "repository",
    prepare: (place) => {
      const cwd = join(place.clone, "../plain");
      mkdirSync(cwd);
      return { cwd };
    },
    status: 1,
    says: "is not inside a git repository",
    hint: "git init && git add --all && git commit",
  },
  {
    name: "an empty repository",
    check: "empty_repository",
    prepare: async (place) => {
      const cwd = join(place.clone, "../empty");
      await place.git("init", "-q", cwd);
      return { cwd, args: TASK };
    },
    status: 4,
    says: "The repository has no commit, so there is nothing to start from [NEEDS_DECISION]",
    hint: 'git add --all && git commit -m "First commit"',
  },
  {
    name: "an empty bare repository",
    check: "empty_repository",
    prepare: async (place) => {
      const cwd = join(place.clone, "../empty.git");
      await place.git("init", "-q", "--bare", cwd);
      return { cwd, args: TASK };
    },
    status: 4,
    says: "The repository has no commit",
    hint: "git commit",
  },
  {
    name: "an issue without a remote",
    check: "forge",
    prepare: async (place) => {
      await place.git("remote", "remove", "origin");
      return {};
    },
    status: 4,
    says: "Issue 1 cannot be read: the repository has no remote [NEEDS_DECISION]",
    hint: "git remote add origin URL",
  },
  {
    name: "a remote that cannot be reached",
    check: "remote",
    prepare: async (place) => {
      await place.git("remote", "set-url", "origin", `${place.remote}.gone`);
      return { args: TASK };
    },
    status: 1,
    says: "The remote origin (",
    hint: "git ls-remote origin",
  },
  {
    name: "an issue at a GitHub Enterprise server that is not known",
    check: "forge",
    prepare: async (place) => {
      await place.git("remote", "set-url", "origin", "https://code.example.invalid/octo/app.git");
      return {};
    },
    status: 4,
    says: "is on a host that is not known to be GitHub or GitLab [NEEDS_DECISION]",
    hint: "holdfast setup --forge github`, then `gh auth login --hostname code.example.invalid",
  },
  {
    name: "no login",
    check: "forge_access",
    prepare: () => github(() => ({ env: { GITHUB_TOKEN: "" } })),
    status: 1,
    says: "[FORGE_DENIED]",
    hint: "gh auth login --hostname github.com",
  },
  {
    name: "a token without the scope",
    check: "forge_access",
    prepare: () =>
      github(({ server }) => server.faults.set(answer(REPOSITORY, { "x-oauth-scopes": "gist, read:org" }))),
    status: 1,
    says: "The login for github.com lacks the scope repo",
    hint: "gh auth refresh --hostname github.com --scopes repo",
  },
  {
    name: "a login that may not push",
    check: "forge_access",
    prepare: () => github(({ server }) => server.faults.set(answer({ ...REPOSITORY, permissions: { push: false } }))),
    status: 1,
    says: "The login for github.com may not push to https://github.com/octo/app [FORGE_DENIED]",
    hint: "gh repo fork --remote",
  },
  {
    name: "an issue that does not exist",
    check: "issue",
    prepare: () => ({ args: ["run", "7", "--agent", "command:true"] }),
    status: 2,
    says: "There is no issue 7 at ",
    hint: "Check the number",
  },
  {
    name: "a closed issue",
    check: "closed_issue",
    prepare: async (place) => {
      const path = join(place.remote, "holdfast-forge/issues/1.md");
      writeFileSync(path, readFileSync(path, "utf8").replace(/^state: open$/m, "state: closed"));
      expect((await openLocalForge({ repository: place.remote, clock: systemClock }).getIssue(1))?.state).toBe(
        "closed",
      );
      return {};
    },
    status: 4,
    says: "Issue 1 is closed [NEEDS_DECISION]",
    hint: "holdfast run 1 --again",
  },
  {
    name: "a base branch that the remote does not have",
    check: "base",
    prepare: () => ({ args: [...ISSUE, "--base", "gone"] }),
    status: 2,
    says: "The remote has no branch gone to start from",
    hint: "git push origin gone",
  },
  {
    name: "a base branch that does not exist, without a remote",
    check: "base",
    prepare: async (place) => {
      await place.git("remote", "remove", "origin");
      return { args: [...TASK, "--base", "gone"] };
    },
    status: 2,
    says: "There is no branch gone to start from",
    hint: "`git branch` lists them",
  },
  {
    name: "a branch of the same name",
    check: "branch",
    prepare: async (place) => {
      await place.git("branch", "holdfast/issue-1");
      return {};
    },
    status: 4,
    says: "The branch holdfast/issue-1 exists already and belongs to no run [NEEDS_DECISION]",
    hint: "git branch -m holdfast/issue-1 holdfast/issue-1-old",
  },
  {
    name: "a branch named holdfast",
    check: "branch_name",
    prepare: async (place) => {
      await place.git("branch", "holdfast");
      return {};
    },
    status: 4,
    says: "The branch holdfast/issue-1 cannot be created: there is a branch holdfast, and git cannot have both",
    hint: "git branch -m holdfast holdfast-old",
  },
  {
    name: "a folder in the place of the worktree",
    check: "worktree",
    prepare: (place) => {
      mkdirSync(join(place.clone, "../shop-worktrees/issue-1"), { recursive: true });
      writeFileSync(join(place.clone, "../shop-worktrees/issue-1/mine.txt"), "mine\n");
      return {};
    },
    status: 4,
    says: "shop-worktrees/issue-1, which exists and is not empty [NEEDS_DECISION]",
    hint: "mv ",
  },
  {
    name: "no agent",
    check: "no_agent",
    prepare: (place) => ({ args: ["run", "1"], env: onlyPrograms(place) }),
    status: 4,
    says: "No agent is configured, and none is ready on this machine",
    hint: "npm install -g @anthropic-ai/claude-code",
    dry: 0,
  },
  {
    name: "several agents and no choice",
    check: "several_agents",
    prepare: (place) => ({
      args: ["run", "1"],
      env: onlyPrograms(place, {
        pi: "echo 99.0.0",
        opencode: "echo 99.0.0",
      }),
    }),
    status: 2,
    says: "No agent is configured, and several are ready: opencode, pi",
    hint: "holdfast setup --yes --agent opencode",
    dry: 0,
  },
  {
    name: "an agent that is not installed",
    check: "agent_missing",
    prepare: (place) => ({ args: ["run", "1", "--agent", "codex"], env: onlyPrograms(place) }),
    status: 4,
    says: "The agent codex cannot be used: codex is not on PATH",
    hint: "npm install -g @openai/codex",
    dry: 0,
  },
  {
    name: "an agent that is too old",
    check: "agent_old",
    prepare: (place) => ({
      args: ["run", "1", "--agent", "codex"],
      env: onlyPrograms(place, { codex: "echo codex-cli 0.1.0" }),
    }),
    status: 4,
    says: "The agent codex cannot be used: Version 0.1.0 is too old",
    hint: "npm install -g @openai/codex@latest",
    dry: 0,
  },
  {
    name: "an agent that is not logged in",
    check: "agent_login",
    prepare: (place) => ({
      args: ["run", "1", "--agent", "claude"],
      env: onlyPrograms(place, {
        claude: `case "$1" in --version) echo "99.0.0 (Claude Code)";; *) echo '{"loggedIn":false}';; esac`,
      }),
    }),
    status: 4,
    says: "The agent claude cannot be used: Claude Code is not logged in",
    hint: "claude auth login",
    dry: 0,
  },
  {
    name: "a command agent whose program does not exist",
    check: "agent_command",
    prepare: () => ({ args: ["run", "1", "--agent", "command:no-such-agent --fast"] }),
    status: 4,
    says: "The agent `no-such-agent --fast` cannot run: no-such-agent is not on PATH",
    hint: "command -v no-such-agent",
    dry: 0,
  },
  {
    name: "a command agent that is not committed",
    check: "agent_command",
    prepare: async (place) => {
      await writeFile(join(place.clone, "agent.sh"), "#!/bin/sh\n", { mode: 0o755 });
      return { args: ["run", "1", "--agent", "command:./agent.sh"] };
    },
    status: 4,
    says: "./agent.sh is not in the files that the run starts from",
    hint: "commit it, or give its whole path: /",
    dry: 0,
  },
  {
    name: "a committed agent, not executable",
    check: "agent_command",
    prepare: async (place) => {
      await writeFile(join(place.clone, "agent.sh"), "#!/bin/sh\n", { mode: 0o644 });
      await place.git("add", "agent.sh");
      await place.git("commit", "-qm", "agent");
      await place.git("push", "-q", "origin", "main");
      return { args: ["run", "1", "--agent", "command:./agent.sh"] };
    },
    status: 4,
    says: "The agent `./agent.sh` cannot run: ./agent.sh is not executable",
    hint: "chmod +x ./agent.sh` and commit the change",
    dry: 0,
  },
  {
    name: "a whole path, not executable",
    check: "agent_command",
    prepare: async (place) => {
      const path = join(place.clone, "../agent.sh");
      await writeFile(path, "#!/bin/sh\n", { mode: 0o644 });
      return { args: ["run", "1", "--agent", `command:${path}`] };
    },
    status: 4,
    says: "agent.sh is not executable",
    hint: "chmod +x /",
    dry: 0,
  },
  {
    name: "a gate whose program does not exist",
    check: "command",
    prepare: () => ({ args: [...ISSUE, "--gate", "CI=1 no-such-runner test"] }),
    status: 4,
    says: "The gate `CI=1 no-such-runner test` cannot run: no-such-runner is not on PATH [NEEDS_DECISION]",
    hint: "command -v no-such-runner",
  },
  {
    name: "a config that cannot be read",
    check: "config",
    prepare: async (place) => {
      await writeFile(join(place.clone, "holdfast.config.yaml"), "impl: { maxIterations: many }\n");
      return {};
    },
    status: 2,
    says: "[CONFIG_INVALID]",
    hint: "holdfast config check",
  },
  {
    name: "an old git",
    check: "git",
    prepare: (place) => ({ env: onlyPrograms(place, { git: "echo git version 2.20.1" }) }),
    status: 1,
    says: "git version 2.20.1 is too old [GIT_MISSING]",
    hint: "Install git 2.38 or newer",
  },
  {
    name: "worktrees in a directory that cannot be written",
    check: "not_writable",
    prepare: async (place) => {
      await writeFile(join(place.clone, "../shop-worktrees"), "a file\n");
      return {};
    },
    status: 1,
    says: "shop-worktrees cannot be written: it is not a directory [IO_FAILED]",
    hint: "ls -ld ",
  },
  {
    name: "worktrees in a link to nothing",
    check: "not_writable",
    prepare: (place) => {
      symlinkSync("gone", join(place.clone, "../shop-worktrees"));
      return {};
    },
    status: 1,
    says: "shop-worktrees cannot be written: it is a link to nothing [IO_FAILED]",
    hint: "ls -ld ",
  },
  {
    name: "worktrees with a name that is too long",
    check: "not_writable",
    prepare: async (place) => {
      const trees = join(dirname(place.clone), "x".repeat(260));
      await writeFile(join(place.clone, "holdfast.config.yaml"), `workspace: { worktrees: ${trees} }\n`);
      return {};
    },
    status: 1,
    says: "cannot be written: the name is too long for the file system [IO_FAILED]",
    hint: "`workspace.worktrees` in holdfast.config.yaml moves the worktrees elsewhere",
  },
  {
    name: "a run of this work exists",
    check: "run",
    prepare: async (place) => {
      const agent = await place.agent([{ ...GOOD, fail: { cause: "auth", message: "no login" } }]);
      expect((await place.run("run", "1", "--no-review", "--agent", agent)).status).toBe(4);
      return {};
    },
    status: 4,
    says: "This work already has a run: issue-1 (waiting for you",
    hint: "holdfast resume issue-1",
  },
];

/** Names and digests of all files, all refs and worktrees, and what the store holds. */
async function inventory(place: WorkPlace, cwd: string): Promise<object> {
  const root = dirname(place.clone);
  const roots = cwd.startsWith(root) ? [root] : [root, dirname(cwd)];
  const files = roots.flatMap((each) =>
    readdirSync(each, { recursive: true, withFileTypes: true })
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !CACHE.test(path) && !existsAsDirectory(path))
      .map((path) => `${relative(each, path)} ${STORE.test(path) ? "" : contentOf(path)}`),
  );
  const git = async (...args: readonly string[]): Promise<string> => {
    try {
      return await place.git("-C", cwd, ...args);
    } catch {
      return "";
    }
  };
  return {
    files: files.toSorted(),
    refs: await git("for-each-ref"),
    worktrees: await git("worktree", "list", "--porcelain"),
    runs: existsSync(join(cwd, ".git/holdfast/store.db"))
      ? JSON.parse((await place.holdfast.run(["list", "--json"], { cwd })).stdout)
      : null,
  };
}

/** Every command makes these caches, which can be deleted at any time. */
const CACHE = /\/(?:holdfast-workspace|\.cache)(?:\/|$)/;
/** Opening an existing store may checkpoint its log: its rows are compared instead. */
const STORE = /\/\.git\/holdfast\//;

function contentOf(path: string): string {
  return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : sha256(readFileSync(path));
}

function existsAsDirectory(path: string): boolean {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
}

function flat({ stdout, stderr }: Finished): string {
  return `${stdout}\n${stderr}`.replaceAll(/\s+/g, " ");
}

describe("a mistake is an error before anything exists", () => {
  test.each(sampleBySeed(ERRORS, 7))(
    "$name",
    async ({ prepare, says, hint, status, dry }) => {
      const place = await work.begin();
      const { args = ISSUE, cwd = place.clone, env = {} } = await prepare(place);
      const before = await inventory(place, cwd);
      for (const more of [["--dry-run"], []]) {
        const done = await place.holdfast.run([...args, ...more], { cwd, env });
        const expected = more.length > 0 ? (dry ?? status) : status;
        expect([more, done.status], flat(done)).toEqual([more, expected]);
        expect(done.stderr.replaceAll(/\s+/g, " ")).toContain(says);
        expect(done.stderr).toMatch(expected === 0 ? /^notice: /m : /^error: /m);
        expect(
          done.stderr
            .split(/^hint: /m)
            .slice(1)
            .join(" ")
            .replaceAll(/\s+/g, " "),
        ).toContain(hint);
        expect(await inventory(place, cwd)).toEqual(before);
      }
    },
    120_000,
  );

  test("all findings are shown at once, errors first", async () => {
    const place = await work.begin();
    await place.git("branch", "holdfast/issue-1");
    await writeFile(join(place.clone, "new.txt"), "new\n");
    const args = ["run", "1", "--agent", "command:no-such-agent", "--gate", "no-such-gate", "--base", "gone"];
    const { status, stderr } = await place.run(...args);
    expect(status).toBe(2);
    expect(stderr.match(/^(?:error|notice): .*$/gm)).toEqual([
      "error: The remote has no branch gone to start from",
      expect.stringMatching(/^error: The branch holdfast\/issue-1 exists already/),
      expect.stringMatching(/^error: The agent `no-such-agent` cannot run/),
      expect.stringMatching(/^error: The gate `no-such-gate` cannot run/),
      "notice: 1 file with uncommitted changes is not part of the run: new.txt",
      expect.stringMatching(/^notice: command:no-such-agent also reviews/),
    ]);
    const json = await place.run("--json", ...args);
    expect(JSON.parse(json.stderr).error).toMatchObject({
      code: "USAGE",
      data: {
        check: "base",
        more: [
          { check: "branch", code: "NEEDS_DECISION" },
          {},
          {},
          { check: "changes", level: "notice", code: null },
          { check: "command_review", level: "notice", code: null },
        ],
      },
    });
  }, 120_000);
});

test("each error of the table has a situation here", () => {
  const rows = PREFLIGHT.filter(({ level, check }) => level === "error" && check !== "disk_full");
  expect([...new Set(ERRORS.map(({ check }) => check))].toSorted()).toEqual(
    [...rows.map(({ check }) => check), "config", "git", "run"].toSorted(),
  );
});

test("a detached HEAD, a merge in progress, unpushed and uncommitted changes are notices, and the run starts", async () => {
  const place = await work.begin();
  await place.git("checkout", "-q", "-b", "other");
  await writeFile(join(place.clone, "README.md"), "# Other\n");
  await place.git("commit", "-qam", "other");
  await place.git("checkout", "-q", "main");
  await writeFile(join(place.clone, "README.md"), "# Mine\n");
  await place.git("commit", "-qam", "mine");
  await place.git("merge", "other").catch(() => "");
  await writeFile(join(place.clone, "new.txt"), "new\n");
  const agent = await place.agent([GOOD]);
  const dry = await place.run("run", "1", "--no-review", "--agent", agent, "--dry-run");
  expect(dry.status, flat(dry)).toBe(0);
  expect(dry.stderr.match(/^notice: .*$/gm)).toEqual([
    "notice: 2 files with uncommitted changes are not part of the run: README.md, new.txt",
    "notice: main has commits here that origin does not have: they are not part of the run",
    expect.stringMatching(/^notice: A merge is in progress in .*: the run has its own worktree and does not see it$/),
  ]);
  const done = await place.run("run", "1", "--no-review", "--agent", agent);
  expect(done.status, flat(done)).toBe(0);
  expect(flat(done)).toContain("A merge is in progress");
  expect(await place.git("show", "holdfast/issue-1:README.md")).toBe("# Shop");
  expect(existsSync(join(place.clone, ".git/MERGE_HEAD"))).toBe(true);
}, 120_000);

const cannotMount = whyNoMount();

test.skipIf(cannotMount !== undefined)(
  `a disk that is nearly full (${cannotMount ?? "as root"})`,
  async () => {
    const place = await work.begin();
    const mounted = mountSmall("4m");
    closing.push(() => mounted.unmount());
    await writeFile(
      join(place.clone, "holdfast.config.yaml"),
      `workspace: { worktrees: ${join(mounted.path, "trees")} }\n`,
    );
    const before = await inventory(place, place.clone);
    for (const more of [["--dry-run"], []]) {
      const done = await place.run(...ISSUE, ...more);
      expect(done.status, flat(done)).toBe(7);
      expect(flat(done)).toMatch(/4\.2 MB are free at .*, and a run needs at least 8\.4 MB \[DISK_FULL\]/);
      expect(await inventory(place, place.clone)).toEqual(before);
      expect(readdirSync(mounted.path)).toEqual([]);
    }
  },
  120_000,
);
