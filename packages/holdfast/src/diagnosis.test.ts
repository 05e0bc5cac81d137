import { describe, expect, test } from "vitest";
import { type Observations, diagnose } from "./diagnosis.ts";

const fine: Observations = {
  node: "v24.21.0",
  git: "git version 2.39.5",
  inRepository: true,
  store: {
    kind: "healthy",
    engine: "SQLite 3.53.4",
    durability: "WAL, synchronous=FULL",
    runs: 1,
    bytes: 10,
    usage: [],
    size: null,
  },
  hasIdentity: true,
  freeBytes: 50 * 1024 ** 3,
  volume: { type: "ext4", unsafe: false, ignoresCase: false, cloud: null },
  unfinishedRestores: [],
  danglingRefs: 0,
  sideWorktrees: 0,
  halfRemoved: [],
  agents: [{ name: "claude", probe: { installed: true, version: "2.1.325", problem: null, hint: null } }],
  forges: [{ name: "gh", path: "/usr/bin/gh" }],
  forge: { name: "local", location: "file:///shop.git", login: null, fix: null },
};
const levelOf = (seen: Partial<Observations>, name: string) =>
  diagnose({ ...fine, ...seen }).checks.find((check) => check.name === name);

const gone = { installed: false, version: null, problem: "There is no codex on PATH", hint: "Install it." };
const out = { installed: true, version: "0.166.0", problem: "Codex is not logged in", hint: "Log in." };

describe("doctor judges its observations", () => {
  test("no problem", () => {
    const report = diagnose(fine);
    expect(report.ok).toBe(true);
    expect(report.checks.every((check) => check.level === "ok" && check.fix === null)).toBe(true);
  });

  test("a user without a name in git is warned that commits are by Holdfast", () => {
    expect(levelOf({ hasIdentity: false }, "identity")).toMatchObject({
      level: "warn",
      fix: expect.stringContaining("git config"),
    });
    for (const hasIdentity of [true, null]) expect(levelOf({ hasIdentity }, "identity")).toBeUndefined();
  });

  test("each agent has a line: ready, not installed, which is not a problem, or its problem", () => {
    const line = (probe: typeof gone | typeof out) => levelOf({ agents: [{ name: "codex", probe }] }, "codex");
    expect(levelOf({}, "claude")).toMatchObject({ level: "ok", detail: "2.1.325, ready", fix: null });
    expect(line(gone)).toMatchObject({ level: "missing", detail: "not installed", fix: "Install it." });
    expect(line(out)).toMatchObject({ level: "warn", detail: "0.166.0, Codex is not logged in", fix: "Log in." });
  });

  test("a forge that was not detected is missing, which is not a failure", () => {
    expect(levelOf({ forge: null }, "forge")).toMatchObject({
      level: "missing",
      detail: "no forge was detected from the remote; gh found",
      fix: expect.stringContaining("holdfast setup --forge github"),
    });
    const forges = ["gh", "glab"].map((name) => ({ name, path: null }));
    expect(levelOf({ forge: null, forges }, "forge")?.detail).toMatch(/; neither gh nor glab found$/);
    expect(diagnose({ ...fine, forge: null }).ok).toBe(true);
  });

  test("without any agent that is ready, not all checks passed", () => {
    expect(levelOf({}, "agents")).toBeUndefined();
    for (const probe of [gone, out]) {
      const agents = [{ name: "codex", probe }];
      expect(levelOf({ agents }, "agents")).toMatchObject({ level: "warn", fix: expect.stringContaining("command:") });
      expect(diagnose({ ...fine, agents }).ok).toBe(true);
    }
  });

  test.each([
    [{ git: null }, "git", "fail"],
    [{ git: "git version 2.30.1" }, "git", "fail"],
    [{ git: "git version 3.0.0" }, "git", "ok"],
    [{ inRepository: false }, "git", "warn"],
    [{ inRepository: false, store: { kind: "absent" } }, "store", "warn"],
    [{ store: { kind: "absent" } }, "store", "ok"],
    [{ store: { kind: "broken", code: "STORE_CUT", message: "cut", hint: undefined } }, "store", "fail"],
    [{ store: { ...fine.store, size: { level: "near", text: "much" } } }, "size", "warn"],
    [{ store: { ...fine.store, size: { level: "reached", text: "all" } } }, "size", "fail"],
    [{ freeBytes: 500 * 1024 ** 2 }, "disk", "warn"],
    // A run can start with this much, so `doctor` must not call it a failure.
    [{ freeBytes: 9 * 1024 ** 2 }, "disk", "warn"],
    [{ volume: { type: "apfs", unsafe: false, ignoresCase: true, cloud: null } }, "volume", "ok"],
    [{ volume: { type: "apfs", unsafe: false, ignoresCase: true, cloud: "iCloud Drive" } }, "volume", "warn"],
    [{ volume: { type: "smbfs", unsafe: true, ignoresCase: true, cloud: null } }, "volume", "fail"],
    [{ freeBytes: 1024 ** 2 }, "disk", "fail"],
    [{ unfinishedRestores: [{ run: "r", target: "r@1" }] }, "restore", "warn"],
    [{ danglingRefs: 3 }, "refs", "ok"],
    [{ sideWorktrees: 2 }, "sideWorktrees", "ok"],
    [{ halfRemoved: ["r"] }, "removal", "warn"],
  ] as const)("%j: %s is %s", (seen, name, level) => {
    const check = levelOf(seen as Partial<Observations>, name);
    expect(check?.level).toBe(level);
    if (level !== "ok") expect(check?.fix).toBeTruthy();
  });
});
