import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Checks } from "@holdfast/core/forge";
import { type LocalForgeScene, createLocalForgeScene } from "@holdfast/test-support/forges/forge-scenes";
import { forgeContract, pullRequest } from "@holdfast/testing/forge-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { parseLocalRemote } from "./local-repository.ts";
import { openLocalForge } from "./local.ts";

describe("local forge", () => {
  let scene: LocalForgeScene;
  beforeAll(() => {
    scene = createLocalForgeScene(createSetClock());
  });
  // Most tests do not change the repository; the forge directory is recreated for each.
  beforeEach(() => rmSync(scene.directory, { recursive: true, force: true }));
  afterAll(() => scene.dispose());

  /** For tests that move branches. */
  function freshScene(): void {
    scene.dispose();
    scene = createLocalForgeScene(createSetClock());
  }

  function log(): readonly Readonly<Record<string, unknown>>[] {
    const lines = readFileSync(join(scene.directory, "log.jsonl"), "utf8").split("\n").slice(0, -1);
    return lines.map((line): Readonly<Record<string, unknown>> => JSON.parse(line));
  }

  describe("files that users write", () => {
    test("an issue written by hand is an issue; its time is the file's; the next number comes after it", async () => {
      scene.write("issues/42.md", "---\ntitle: Greet people\nlabels: [bug]\n---\nSay hello.\n");
      utimesSync(join(scene.directory, "issues/42.md"), 1_700_000_000, 1_700_000_000);
      const forge = scene.forge();
      expect(await forge.getIssue(42)).toEqual({
        number: 42,
        title: "Greet people",
        body: "Say hello.\n",
        labels: ["bug"],
        state: "open",
        updatedAt: "2023-11-14T22:13:20.000Z",
      });
      expect(await forge.getIssue(4)).toBeNull();
      expect((await forge.createIssue({ title: "Next", body: "", labels: [], key: "k" })).number).toBe(43);
      await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      expect((await forge.createPullRequest(pullRequest())).number).toBe(44);
    });

    test.each([
      ["issues/1.md", "---\ntitle: [\n---\n", (at: LocalForgeScene) => at.forge().getIssue(1)],
      ["issues/1.md", Buffer.from([0x23, 0xff, 0xfe]), (at: LocalForgeScene) => at.forge().getIssue(1)],
      ["issues/2.comments.json", "[{]", (at: LocalForgeScene) => at.forge().findComment(2, "k")],
      ["issues/2.comments.json", '[{"body": 1}]', (at: LocalForgeScene) => at.forge().findComment(2, "k")],
      ["pulls/1.json", "", (at: LocalForgeScene) => at.forge().getPullRequest(1)],
      ["pulls/1.json", '{"version": 2}', (at: LocalForgeScene) => at.forge().findPullRequest("topic")],
      ["forge.yaml", "ci: [", (at: LocalForgeScene) => at.forge().checks("a".repeat(40))],
      ["forge.yaml", "cy: npm test", (at: LocalForgeScene) => at.forge().checks("a".repeat(40))],
      ["forge.yaml", "ci: 3", (at: LocalForgeScene) => at.forge().checks("a".repeat(40))],
      [
        `checks/${"b".repeat(40)}.json`,
        '{"runs": [{"name": "x", "state": "green"}]}',
        (at: LocalForgeScene) => at.forge().checks("b".repeat(40)),
      ],
      [
        "pending.json",
        "{",
        (at: LocalForgeScene) => at.forge().createIssue({ title: "x", body: "", labels: [], key: "k" }),
      ],
    ])("%s damaged (%j): the error names the file", async (path, text, act) => {
      scene.write("issues/2.md", "# Two\n");
      scene.write(path, "");
      writeFileSync(join(scene.directory, path), text);
      const full = join(scene.directory, path);
      await expect(act(scene)).rejects.toMatchObject({
        code: "FORGE_FAILED",
        retry: "ask",
        message: expect.stringContaining(full),
        hint: expect.any(String),
      });
    });

    test("a damaged issue does not hide the others", async () => {
      scene.write("issues/1.md", "---\ntitle: [\n---\n");
      const forge = scene.forge();
      const { number } = await forge.createIssue({ title: "x", body: "", labels: [], key: "k" });
      expect((await forge.findIssue("k"))?.number).toBe(number);
    });
  });

  describe("bad input is refused before anything is written", () => {
    const issue = { title: "x", body: "", labels: [], key: "k" };
    test.each([
      ["issue 0", (at: LocalForgeScene) => at.forge().getIssue(0)],
      ["issue 1.5", (at: LocalForgeScene) => at.forge().getIssue(1.5)],
      ["issue NaN", (at: LocalForgeScene) => at.forge().getIssue(Number.NaN)],
      ["an empty title", (at: LocalForgeScene) => at.forge().createIssue({ ...issue, title: " " })],
      ["a title of two lines", (at: LocalForgeScene) => at.forge().createIssue({ ...issue, title: "a\nb" })],
      ["a key with a space", (at: LocalForgeScene) => at.forge().createIssue({ ...issue, key: "a b" })],
      ["a key that ends the comment", (at: LocalForgeScene) => at.forge().findIssue("x-->")],
      ["a commit that is a path", (at: LocalForgeScene) => at.forge().checks("../../etc/passwd")],
      ["a short commit", (at: LocalForgeScene) => at.forge().checks("abc123")],
      [
        "a pull request without a title",
        (at: LocalForgeScene) => at.forge().createPullRequest(pullRequest({ title: "" })),
      ],
    ])("%s", async (_name, act) => {
      await expect(act(scene)).rejects.toMatchObject({ code: "USAGE", hint: expect.any(String) });
      expect(existsSync(scene.directory)).toBe(false);
    });

    test.each(["main^", "main~0", "../heads/main", "main:a.txt", "-d", "--all", "a\0b", "HEAD"])(
      "%j is not a branch",
      async (head) => {
        await expect(scene.forge().createPullRequest(pullRequest({ head }))).rejects.toMatchObject({
          code: "FORGE_REFUSED",
          data: { why: "head_missing" },
        });
      },
    );

    test("without a repository requests fail, and succeed once it is back", async () => {
      const forge = openLocalForge({ repository: "/nowhere/at/all.git" });
      await expect(forge.getIssue(1)).rejects.toMatchObject({
        code: "FORGE_FAILED",
        retry: "later",
        hint: expect.stringContaining("git remote set-url"),
      });
    });
  });

  describe("the log counts each change once", () => {
    beforeEach(freshScene);

    test("kind, time, number and key are logged; reads and repeated calls log nothing", async () => {
      const forge = scene.forge();
      const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      for (let round = 0; round < 2; round++) {
        const { number } = await forge.createIssue({ title: "x", body: "", labels: [], key: "run/setup/issue" });
        await forge.setLabels(number, ["doing"]);
        await forge.comment(number, { body: "c", key: "run/setup/note" });
        const pull = await forge.createPullRequest(pullRequest({ body: `Closes #${number}` }));
        await forge.updatePullRequest(pull.number, { title: "Better" });
        await forge.mergePullRequest(pull.number, { head });
        await forge.findPullRequest("topic");
      }
      expect(log().map(({ what, number, key }) => [what, number, key])).toEqual([
        ["issue_created", 1, "run/setup/issue"],
        ["labels_set", 1, null],
        ["comment_created", 1, "run/setup/note"],
        ["pull_created", 2, "run-1/pr/create"],
        ["pull_updated", 2, null],
        ["pull_merged", 2, null],
        ["issue_closed", 1, null],
      ]);
      expect(new Set(log().map(({ at }) => at))).toEqual(new Set(["2026-03-01T12:00:00.000Z"]));
    });

    test("from each state that a kill can leave, the change is made once and logged once", async () => {
      const forge = scene.forge();
      const make = (key: string): Promise<unknown> => forge.createIssue({ title: "x", body: "", labels: [], key });
      await make("first");
      const text = readFileSync(join(scene.directory, "issues/1.md"), "utf8").replace("first", "second");
      const line = JSON.stringify({ id: "1", at: "t", what: "issue_created", number: 2, key: "second" });
      const pending = JSON.stringify({ version: 1, path: "issues/2.md", text, mode: "create", line });
      const before = readFileSync(join(scene.directory, "log.jsonl"), "utf8");
      for (const state of ["written down", "file there", "log line torn", "log line there"]) {
        scene.write("pending.json", pending);
        if (state !== "written down") scene.write("issues/2.md", text);
        if (state === "log line torn") scene.write("log.jsonl", before + line.slice(0, 20));
        if (state === "log line there") scene.write("log.jsonl", `${before}${line}\n`);
        await make("second");
        expect(
          log().map(({ key }) => key),
          state,
        ).toEqual(["first", "second"]);
        expect((await forge.findIssue("second"))?.number, state).toBe(2);
        expect(existsSync(join(scene.directory, "issues/3.md")), state).toBe(false);
        scene.write("log.jsonl", before);
      }
      // A user wrote that number by hand in between: their issue is kept and ours gets another number.
      scene.write("pending.json", pending);
      scene.write("issues/2.md", "# By hand\n");
      await make("second");
      expect((await forge.getIssue(2))?.title).toBe("By hand");
      expect((await forge.findIssue("second"))?.number).toBe(3);
    });

    test("a merge that was killed before its file was written is completed, not repeated", async () => {
      const forge = scene.forge();
      const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      const before = readFileSync(join(scene.directory, `pulls/${number}.json`), "utf8");
      await forge.mergePullRequest(number, { head });
      const base = await scene.tip("main");
      expect(scene.bare.git("log", "-1", "--format=%P|%s", "main").trim()).toMatch(
        new RegExp(`^[0-9a-f]{40} ${head}\\|Merge pull request #${number} from topic$`),
      );
      scene.write(`pulls/${number}.json`, before);
      expect((await forge.getPullRequest(number))?.state).toBe("merged");
      expect((await forge.mergePullRequest(number, { head })).state).toBe("merged");
      expect(await scene.tip("main")).toBe(base);
      expect(scene.bare.git("fsck", "--strict", "--no-dangling")).toBe("");
    });
  });

  describe("pull requests and changes of their branches", () => {
    beforeEach(freshScene);

    test("a branch merged by hand is merged; a head that was reset or deleted is not", async () => {
      const forge = scene.forge();
      const start = await scene.tip("main");
      await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest());
      const head = (await scene.tip("topic")) ?? "";
      scene.bare.git("update-ref", "refs/heads/topic", start ?? "");
      expect(await forge.getPullRequest(number)).toMatchObject({ state: "open", mergeability: "blocked" });
      scene.bare.git("update-ref", "-d", "refs/heads/topic");
      expect(await forge.getPullRequest(number)).toMatchObject({
        state: "open",
        mergeability: "blocked",
        headCommit: head,
      });
      scene.bare.git("update-ref", "refs/heads/topic", head);
      scene.bare.git("update-ref", "refs/heads/main", head);
      expect(await forge.getPullRequest(number)).toMatchObject({ state: "merged" });
    });

    test("a head without a common history is refused, and conflicts when it came after the pull request", async () => {
      const forge = scene.forge();
      await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const orphan = scene.bare.git("commit-tree", "-m", "orphan", "topic^{tree}").trim();
      scene.bare.git("update-ref", "refs/heads/orphan", orphan);
      await expect(forge.createPullRequest(pullRequest({ head: "orphan" }))).rejects.toMatchObject({
        code: "FORGE_REFUSED",
        data: { why: "unrelated" },
      });
      expect(await forge.findPullRequest("orphan")).toBeNull();
      const { number } = await forge.createPullRequest(pullRequest());
      scene.bare.git("update-ref", "refs/heads/topic", orphan);
      expect(await forge.getPullRequest(number)).toMatchObject({ state: "open", mergeability: "conflicting" });
    });

    test("a pull request is behind when the base moved; a draft is blocked and not merged", async () => {
      const forge = scene.forge();
      const head = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
      const { number } = await forge.createPullRequest(pullRequest({ draft: true }));
      expect((await forge.getPullRequest(number))?.mergeability).toBe("blocked");
      await expect(forge.mergePullRequest(number, { head })).rejects.toMatchObject({ data: { why: "draft" } });
      await scene.push({ branch: "main", files: { "m.txt": "m\n" } });
      await scene.push({ branch: "other", from: "topic", files: { "o.txt": "o\n" } });
      const other = await forge.createPullRequest(pullRequest({ head: "other", key: "k2" }));
      expect(other.mergeability).toBe("behind");
    });

    test("the default branch is found though HEAD names one that was never pushed", async () => {
      scene.bare.git("symbolic-ref", "HEAD", "refs/heads/master");
      expect(await scene.forge().defaultBranch()).toBe("main");
      scene.bare.git("branch", "master", "main");
      scene.bare.git("symbolic-ref", "HEAD", "refs/heads/trunk");
      await expect(scene.forge().defaultBranch()).rejects.toMatchObject({ code: "FORGE_FAILED" });
    });
  });

  test.each([
    ["/srv/x.git", "/srv/x.git"],
    ["../x.git", "/work/x.git"],
    ["file:///srv/a%20b.git", "/srv/a b.git"],
    ["https://example.invalid/x.git", null],
    ["git@example.invalid:x.git", null],
    ["host:path", null],
    ["./odd:name", "/work/repo/odd:name"],
    ["", null],
  ])("the remote %j is the path %j", (url, path) => {
    expect(parseLocalRemote(url, "/work/repo")).toBe(path);
  });

  test("a repository that is gone, or broken, is a failure and never 'absent'", async () => {
    const forge = scene.forge();
    await scene.push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
    scene.write("forge.yaml", "ci: 'true'\n");
    await forge.createPullRequest(pullRequest());
    rmSync(join(scene.bare.root, "HEAD"));
    for (const ask of [
      () => forge.findPullRequest("topic"),
      () => forge.createPullRequest(pullRequest({ head: "other", key: "k" })),
      () => forge.defaultBranch(),
      () => forge.checks("a".repeat(40)),
    ]) {
      await expect(ask()).rejects.toMatchObject({ code: "FORGE_FAILED", retry: "later" });
    }
  });
});

describe("ci", () => {
  let scene: LocalForgeScene;
  let commit: string;
  beforeEach(async () => {
    scene = createLocalForgeScene();
    commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "hello\n" } });
  });
  afterEach(() => scene.dispose());

  test("the command runs once, in a checkout of the commit, and its result is stored", async () => {
    const ran = join(scene.directory, "..", "ran");
    scene.write("forge.yaml", `ci: 'echo run >> ${ran}; cat b.txt; git rev-parse HEAD; test -z "$HOLDFAST_MARK"'\n`);
    const [first] = await Promise.all([scene.forge().checks(commit), scene.forge().checks(commit)]);
    expect(first).toEqual({
      state: "passed",
      runs: [{ name: "ci", state: "passed", url: null, summary: `hello\n${commit}\n` }],
    });
    expect(await scene.forge().checks(commit)).toEqual(first);
    expect(readFileSync(ran, "utf8")).toBe("run\n");
    expect(readdirSync(join(scene.directory, "ci"))).toEqual([]);
    expect(readFileSync(join(scene.directory, "log.jsonl"), "utf8").match(/checks_recorded/g)).toHaveLength(1);
  });

  test("a failure includes the end of its output", async () => {
    scene.write("forge.yaml", "ci: 'seq 1 20000; echo the last word >&2; exit 7'\n");
    const { state, runs } = await scene.forge().checks(commit);
    expect(state).toBe("failed");
    expect(runs[0]?.summary).toMatch(/19999\n20000\nthe last word\n$/);
    expect(runs[0]?.summary.length).toBeLessThan(9000);
  });

  test("a check is pending while it runs, even if no process waits for it, and then has its result", async () => {
    const gate = join(scene.directory, "..", "gate");
    scene.write("forge.yaml", `ci: 'while [ ! -e ${gate} ]; do sleep 0.05; done; echo through'\n`);
    expect((await scene.forge({ ciWaitMs: 0 }).checks(commit)).state).toBe("pending");
    expect((await scene.forge({ ciWaitMs: 0 }).checks(commit)).runs).toMatchObject([{ name: "ci", state: "pending" }]);
    writeFileSync(gate, "");
    expect(await untilDone()).toMatchObject({ state: "passed", runs: [{ summary: "through\n" }] });
  });

  test("a check that died without a result runs again", async () => {
    const gate = join(scene.directory, "..", "gate");
    scene.write("forge.yaml", `ci: 'test -e ${gate} || kill -9 0'\n`);
    expect((await scene.forge({ ciWaitMs: 300 }).checks(commit)).state).toBe("pending");
    writeFileSync(gate, "");
    expect((await untilDone()).state).toBe("passed");
  });

  test("a check that does not end is ended", async () => {
    scene.write("forge.yaml", "ci: 'sleep 600'\nciTimeoutMinutes: 0.001\n");
    const { state, runs } = await scene.forge().checks(commit);
    expect(state).toBe("failed");
    expect(runs[0]?.summary).toContain("did not end");
  });

  test("a process that has the pid of a dead check by now is neither taken for it nor ended", async () => {
    const gate = join(scene.directory, "..", "gate");
    scene.write("forge.yaml", `ci: 'test -e ${gate} || sleep 600'\n`);
    expect((await scene.forge({ ciWaitMs: 0 }).checks(commit)).state).toBe("pending");
    const [folder = ""] = readdirSync(join(scene.directory, "ci"));
    const path = join(scene.directory, "ci", folder, "runner.json");
    const runner = JSON.parse(readFileSync(path, "utf8"));
    process.kill(-runner.pid, "SIGKILL");
    const stranger = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    const ended = once(stranger, "exit");
    // Both may have started in the same hundredth of a second, which is all that the kernel tells.
    writeFileSync(path, JSON.stringify({ ...runner, pid: stranger.pid, started: "1", startedAt: 0 }));
    writeFileSync(gate, "");
    expect((await untilDone()).state).toBe("passed");
    expect(stranger.signalCode).toBeNull();
    stranger.kill("SIGTERM");
    expect(await ended).toEqual([null, "SIGTERM"]);
  });

  test("without a command, or for a commit that was never pushed, there is no check", async () => {
    expect((await scene.forge().checks(commit)).state).toBe("none");
    scene.write("forge.yaml", "ci: 'true'\n");
    expect((await scene.forge().checks("a".repeat(40))).state).toBe("none");
  });

  async function untilDone(): Promise<Checks> {
    for (let tries = 0; ; tries++) {
      const checks = await scene.forge({ ciWaitMs: 1000 }).checks(commit);
      if (checks.state !== "pending" || tries > 30) return checks;
      await setTimeout(20);
    }
  }
});

describe("killed writers", () => {
  const FORGE = fileURLToPath(new URL("./local.ts", import.meta.url));
  const KEYS = 30;

  /** All writers use the same keys in the same order and start together, so that they contend for each key. */
  function startWriter(repository: string, gate: string): ChildProcess {
    const program = `
    import { existsSync } from "node:fs";
    import { openLocalForge } from ${JSON.stringify(FORGE)};
    const forge = openLocalForge({ repository: ${JSON.stringify(repository)} });
    while (!existsSync(${JSON.stringify(gate)})) await new Promise((resolve) => setTimeout(resolve, 1));
    for (let at = 0; at < ${KEYS}; at++) {
      const key = "run/setup/" + at;
      const { number } = await forge.createIssue({ title: key, body: "", labels: [], key });
      await forge.comment(number, { body: "seen", key: key + "/note" });
    }`;
    const args = ["--input-type=module", "--disable-warning=ExperimentalWarning", "-e", program];
    return spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  }

  test("concurrent writers, killed repeatedly: each issue and comment exists once, numbers are unique, each change is logged once", async () => {
    const scene = createLocalForgeScene();
    try {
      for (const milliseconds of [20, 60, 120, null]) {
        const gate = join(scene.bare.root, "..", `gate-${milliseconds}`);
        const writers = [1, 2, 3].map(() => startWriter(scene.bare.root, gate));
        const ended = Promise.all(writers.map((writer) => once(writer, "exit")));
        // Time for all writers to reach the gate. If they do not, the test only covers less.
        await setTimeout(400);
        writeFileSync(gate, "");
        if (milliseconds !== null) {
          await Promise.race([ended, setTimeout(milliseconds)]);
          for (const writer of writers) writer.kill("SIGKILL");
        }
        const codes = (await ended).map(([code]) => code);
        if (milliseconds === null) expect(codes).toEqual([0, 0, 0]);
      }
      const forge = scene.forge();
      const numbers: (number | undefined)[] = [];
      for (let at = 0; at < KEYS; at++) numbers.push((await forge.findIssue(`run/setup/${at}`))?.number);
      expect(numbers).toEqual(Array.from({ length: KEYS }, (_, at) => at + 1));
      expect(await forge.getIssue(KEYS + 1)).toBeNull();
      const lines = readFileSync(join(scene.directory, "log.jsonl"), "utf8").split("\n").slice(0, -1);
      const keys = lines.map((line): unknown => JSON.parse(line).key);
      expect(keys).toHaveLength(2 * KEYS);
      expect(new Set(keys).size).toBe(2 * KEYS);
    } finally {
      scene.dispose();
    }
  });
});

describe("contract", () => {
  describe("the local forge keeps the contract", () => {
    for (const { name, run } of forgeContract) {
      test(name, async () => {
        const scene = createLocalForgeScene();
        try {
          await run(scene);
        } finally {
          scene.dispose();
        }
      });
    }
  });
});
