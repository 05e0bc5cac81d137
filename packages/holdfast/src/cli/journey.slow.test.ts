import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { BuiltCommand } from "@holdfast/test-support/built-command";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { openHoldfast } from "../open.ts";
import { displayWidth } from "./output/text.ts";

let journey: Journey;
let holdfast: BuiltCommand;
let repository: string;

beforeAll(async () => {
  journey = await startJourney();
  ({ holdfast } = journey);
}, 60_000);
afterAll(() => holdfast.remove());

beforeEach(async () => {
  await journey.begin();
  repository = journey.repository();
});

const git = (...args: string[]) => journey.git(...args);
const write = (path: string, text: string) => journey.write(path, text);
const read = (path: string) => journey.read(path);
const run = (...args: string[]) => journey.run(...args);
const json = (...args: string[]) => journey.json(...args);
const fails = (status: number, ...args: string[]) => journey.fails(status, ...args);

describe("a day with Holdfast", () => {
  test("save, change, diff, restore, undo", async () => {
    const first = await json("checkpoint", "--run", "fix-login", "--name", "before");
    expect(first).toMatchObject({
      started: true,
      checkpoint: { id: "fix-login@1", name: "before", trigger: "manual" },
    });
    await write("src/a.txt", "two\n");
    await write("src/new.txt", "new\n");
    await write("debug.log", "ignored\n");
    expect((await json("diff", "--name-only")).files).toEqual([
      { path: "src/a.txt", status: "modified", from: null },
      { path: "src/new.txt", status: "added", from: null },
    ]);
    expect(await json("checkpoint", "--name", "after")).toMatchObject({
      started: false,
      checkpoint: { id: "fix-login@2" },
    });

    const { plan } = await json("restore", "fix-login@1", "--dry-run");
    expect(plan.files.changes.map(({ kind, path }: { kind: string; path: string }) => [kind, path])).toEqual([
      ["write", "src/a.txt"],
      ["remove", "src/new.txt"],
    ]);
    expect(await read("src/a.txt")).toBe("two\n");

    expect(await fails(4, "restore", "fix-login@1")).toContain("holdfast restore fix-login@1 --yes");
    expect(await read("src/a.txt")).toBe("two\n");

    await write("src/a.txt", "not saved anywhere\n");
    const restored = await json("restore", "fix-login@1", "--yes");
    expect(await read("src/a.txt")).toBe("one\n");
    await expect(read("src/new.txt")).rejects.toThrow("ENOENT");
    expect(await read("debug.log")).toBe("ignored\n");

    const undone = await run("restore", restored.report.undo.id, "--yes");
    expect(undone.status).toBe(0);
    expect(undone.stdout).toMatch(
      /^Restored fix-login@\d+: 2 files written, 0 removed\. Saved as fix-login@\d+\.\nTo undo: holdfast restore fix-login@\d+\n$/,
    );
    expect(await read("src/a.txt")).toBe("not saved anywhere\n");
    expect(await read("src/new.txt")).toBe("new\n");
  });

  test("one path only", async () => {
    await json("checkpoint", "--run", "r");
    await write("src/a.txt", "two\n");
    await write("src/b.txt", "two\n");
    await json("restore", "r@1", "--yes", "--", "src/a.txt");
    expect([await read("src/a.txt"), await read("src/b.txt")]).toEqual(["one\n", "two\n"]);
  });

  test("a patch that git applies, with the state before it", async () => {
    const child = await holdfast.run(["checkpoint", "--run", "r", "--values", "-"], {
      cwd: repository,
      input: '{"step": 1}',
    });
    expect(child.status).toBe(0);
    await write("src/a.txt", "two\n");
    await holdfast.run(["checkpoint", "--run", "r", "--values", "-"], { cwd: repository, input: '{"step": 2}' });
    const { stdout } = await run("diff", "r@1", "r@2");
    expect(stdout).toMatch(/^state \/context\/values\/step 1 → 2$/m);
    await write("src/a.txt", "one\n");
    await write("../patch", stdout);
    await git("apply", "../patch");
    expect(await read("src/a.txt")).toBe("two\n");
    expect(JSON.parse((await run("show", "r@latest", "--values")).stdout)).toEqual({ step: 2 });
  });

  test("tags", async () => {
    await json("checkpoint", "--run", "r");
    await json("checkpoint", "--run", "r");
    expect(await json("tag", "r@1", "works", "--dry-run")).toEqual({
      tag: { name: "works", run: "r", sequence: 1 },
      action: "added",
      dryRun: true,
    });
    expect(await json("tag", "r")).toEqual({ tags: [] });
    expect(await json("tag", "r@1", "works")).toMatchObject({ action: "added" });
    expect(await fails(4, "tag", "r@2", "works")).toContain("--move");
    expect(await json("tag", "r@2", "works", "--move")).toMatchObject({ action: "moved" });
    const tags = [{ name: "works", run: "r", sequence: 2 }];
    for (const address of ["r", "r@1", "@1"]) expect(await json("tag", address)).toEqual({ tags });
    expect((await json("show", "r@works")).checkpoint.sequence).toBe(2);
    expect(await fails(3, "tag", "r", "wroks", "--delete")).toContain("works");
    expect(await json("tag", "r", "works", "--delete")).toMatchObject({ action: "deleted" });
    expect((await run("tag", "r")).stderr).toContain("holdfast tag r@latest NAME");
  });

  test("fork", async () => {
    await json("checkpoint", "--run", "r");
    await write("src/a.txt", "two\n");
    expect(await json("fork", "r@1", "--as", "other", "--dry-run")).toEqual({
      plan: { from: "r@1", as: "other", worktree: true },
      dryRun: true,
    });
    const forked = await json("fork", "r@1", "--as", "other");
    expect(forked.run).toMatchObject({ id: "other", forkedFrom: { id: "r@1" } });
    expect(await readFile(join(forked.worktree, "src/a.txt"), "utf8")).toBe("one\n");
    expect(await read("src/a.txt")).toBe("two\n");
    expect(await fails(1, "fork", "r@1", "--as", "other", "--dry-run")).toContain("already");
    expect(await fails(2, "fork", "r@1", "--as", "Other Way")).toContain("cannot be a run id");
    expect((await json("fork", "r@1", "--no-worktree")).worktree).toBeNull();
  });

  test("gc, verify, doctor, log", async () => {
    await json("checkpoint", "--run", "r");
    await json("checkpoint", "--run", "r");
    const { plan, dryRun } = await json("gc", "--dry-run");
    expect([dryRun, plan.plans[0].decisions.map(({ action }: { action: string }) => action)]).toEqual([
      true,
      ["keep", "keep"],
    ]);
    expect((await run("gc", "--dry-run")).stdout).toContain("Nothing to drop, keep 2");
    expect((await run("gc")).stdout).toContain("Nothing to drop");
    expect(await json("verify")).toMatchObject({ ok: true, problems: [], summary: { runs: 1, checkpoints: 2 } });
    expect((await run("doctor")).stdout).toMatch(/^ok +store/m);
    const { entries } = await json("events", "r");
    expect(entries.map(({ kind }: { kind: string }) => kind)).toContain("checkpoint");
    expect((await json("events", "r", "--after", "1", "--limit", "1")).entries).toHaveLength(1);
  });

  test("omitted files are named", async () => {
    await write("holdfast.config.yaml", "workspace: { maxUntrackedBytes: 1kB }\n");
    await write("big.bin", "x".repeat(5000));
    const { stdout } = await run("checkpoint", "--run", "r");
    expect(stdout).toContain("  ! big.bin not saved: too large, 5.0 kB\n");
    expect((await run("show", "r@1")).stdout).toContain("! big.bin not saved: too large, 5.0 kB");
  });

  test("gc drops by the rules, after a confirmation, and leaves tombstones", async () => {
    await write("holdfast.config.yaml", "gc: { auto: false }\nretention: { keep: { manual: 1 } }\n");
    for (const text of ["one", "two", "three"]) {
      await write("src/a.txt", text);
      await json("checkpoint", "--run", "r");
    }
    expect((await run("gc", "--dry-run")).stdout).toContain("Would drop 2 checkpoints, keep 1");
    expect(await fails(4, "gc")).toContain("holdfast gc --yes");
    expect((await run("gc", "--yes")).stdout).toContain("Dropped 2 checkpoints (each left a tombstone)");
    expect((await json("list", "r")).checkpoints.map(({ sequence }: { sequence: number }) => sequence)).toEqual([3]);
    expect(await fails(3, "show", "r@1")).toContain("was dropped");
    expect((await run("events", "r")).stdout).toMatch(/checkpoint\.dropped +@/);
    expect((await run("show", "r")).stdout).toMatch(/^dropped +2 checkpoints by retention/m);
  });

  test.each(
    sampleBySeed(
      [1, 4, 9, 16, 20].map((dropped) => ({ name: `r@${dropped}`, dropped })),
      2,
      "gc",
    ),
  )("gc killed after it removed the ref of $name keeps what it was to keep", async ({ dropped }) => {
    await write("holdfast.config.yaml", "gc: { auto: false }\nretention: { keep: { manual: 2 } }\n");
    await using library = await openHoldfast({ cwd: repository });
    const saved = await library.createRun({ id: "r", workspace: "here" });
    for (let n = 1; n <= 22; n += 1) {
      await write("src/a.txt", `${n}`);
      await saved.save({ values: { n } });
    }
    await library.close();
    const ref = join(repository, ".git/refs/holdfast/r", String(dropped));
    expect(existsSync(ref)).toBe(true);
    const child = holdfast.start(["gc", "--yes"], { cwd: repository });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    await expect.poll(() => existsSync(ref), { interval: 1, timeout: 600_000 }).toBe(false);
    child.kill("SIGKILL");
    await ended;
    const kept = (await json("list", "r")).checkpoints.map(({ sequence }: { sequence: number }) => sequence);
    expect(kept).toEqual([22, 21]);
    expect((await run("verify")).status).toBe(0);
    expect((await run("gc", "--yes")).status).toBe(0);
    expect((await run("verify")).status).toBe(0);
    await run("restore", "r@21", "--yes");
    expect(await read("src/a.txt")).toBe("21");
  });

  test("a run that another live process owns: status 5, and nothing happens", async () => {
    await json("checkpoint", "--run", "r");
    await using other = await openHoldfast({ cwd: repository });
    await using held = await other.run("r");
    await held.save();
    const [saving, restoring] = await Promise.all([
      fails(5, "checkpoint", "--run", "r"),
      fails(5, "restore", "r@1", "--yes", "--quiet"),
    ]);
    expect(saving).toMatch(
      /^Waiting for r: held by .*\(pid \d+ on .*\) …\nerror: .*process \d+ on .*\nhint: .*--run NAME/,
    );
    expect(restoring).toMatch(/^error: /);
    expect((await run("show", "r")).stdout).toMatch(/^held by +.* \(pid \d+ on .*\), last heartbeat/m);
  });

  test("damage is found, quarantined, and status 6", async () => {
    await json("checkpoint", "--run", "r");
    await write("src/a.txt", "two\n");
    await json("checkpoint", "--run", "r");
    await git("update-ref", "-d", "refs/holdfast/r/2");
    await git("reflog", "expire", "--expire=now", "--all");
    await git("gc", "-q", "--prune=now");
    const found = await run("verify");
    expect(found.status).toBe(6);
    expect(found.stdout).toContain("r@2");
    expect((await run("verify", "--quarantine", "--dry-run")).stdout).toContain("Would quarantine or pin again: r@2");
    const quarantine = await run("verify", "--quarantine", "--json");
    expect([quarantine.status, JSON.parse(quarantine.stdout).repaired]).toEqual([
      6,
      [{ run: "r", quarantined: [2], pinned: [], newestIntact: 1 }],
    ]);
  });
});

describe("empty results name the next command", () => {
  test("no runs", async () => {
    const { status, stdout, stderr } = await run("list");
    expect([status, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("holdfast checkpoint");
    expect(await json("list")).toEqual({ runs: [] });
    expect(await fails(3, "show")).toContain("holdfast checkpoint");
    expect(await fails(3, "restore", "nothing@1", "--yes")).toContain("Nothing is saved here yet");
    await expect(git("rev-parse", "refs/holdfast")).rejects.toThrow();
  });

  test("a dry run of the first checkpoint makes nothing", async () => {
    const { stdout } = await run("checkpoint", "--dry-run", "--run", "r");
    expect(stdout).toBe("Would start the new run r; its first checkpoint has the files as they are now.\n");
    expect(await json("list")).toEqual({ runs: [] });
    await json("checkpoint", "--run", "r");
    expect((await run("checkpoint", "--dry-run")).stdout).toBe("Would save r@2: files as in the last checkpoint\n");
    await write("src/new.txt", "new\n");
    await write("src/a.txt", "two\n");
    expect((await run("checkpoint", "--dry-run")).stdout).toBe(
      "Would save r@2: 2 files changed since the last checkpoint\n  M src/a.txt\n  A src/new.txt\n",
    );
  });

  test("outside a repository", async () => {
    const outside = join(holdfast.directory, "outside");
    await mkdir(outside, { recursive: true });
    const { status, stderr } = await holdfast.run(["list"], { cwd: outside });
    expect(status).toBe(1);
    expect(stderr).toContain("--store");
    const saved = await holdfast.run(["checkpoint", "--store", "state", "--run", "r"], { cwd: outside });
    expect(saved.stdout).toMatch(/^Created run r\.\nSaved r@1 \(state only; \d+ B added to the store\)\n$/);
    await rm(outside, { recursive: true });
  });
});

describe("other programs", () => {
  test("no escape sequence without a terminal, and 80 columns where asked for", async () => {
    await run(
      "checkpoint",
      "--run",
      "r",
      "--name",
      "\u001b[31mred\u001b[0m 日本語 and a name that is rather long for a table",
    );
    for (const args of [
      ["list"],
      ["list", "r"],
      ["show", "r"],
      ["show", "r@1"],
      ["events", "r"],
      ["diff"],
      ["gc", "--dry-run"],
      ["doctor"],
      ["config"],
    ]) {
      const { stdout } = await run(...args);
      expect(stdout, args.join(" ")).not.toContain("\u001b");
      for (const line of stdout.split("\n")) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
    }
    const colored = await holdfast.run(["list"], { cwd: repository, env: { FORCE_COLOR: "1" } });
    expect(colored.stdout).toContain("\u001b[");
    expect(
      (await holdfast.run(["list", "--no-color"], { cwd: repository, env: { FORCE_COLOR: "1" } })).stdout,
    ).not.toContain("\u001b");
  });

  test("a reader that exits early is not an error, however much output is left", async () => {
    const values = { lines: Array.from({ length: 50_000 }, (_, at) => `line ${at}`) };
    await holdfast.run(["checkpoint", "--run", "r", "--values", "-"], {
      cwd: repository,
      input: JSON.stringify(values),
    });
    const piped = `set -o pipefail; "${process.execPath}" "${holdfast.entry}" show r@1 --values | head -2`;
    const { stdout, stderr } = await promisify(execFile)("bash", ["-c", piped], { cwd: repository });
    expect([stdout, stderr]).toEqual(['{\n  "lines": [\n', ""]);
  });

  test("following ends with Ctrl+C, with status 130, and misses nothing", async () => {
    await run("checkpoint", "--run", "r");
    const child = holdfast.start(["events", "r", "--follow", "--json"], { cwd: repository });
    const seen: { readonly entry: number; readonly kind: string }[] = [];
    const ended = new Promise<number | null>((resolve) => child.on("exit", (status) => resolve(status)));
    let rest = "";
    await new Promise<void>((resolve) => {
      let saved = false;
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) seen.push(JSON.parse(line));
        if (!saved) {
          saved = true;
          void run("checkpoint", "--run", "r");
        }
        if (seen.filter(({ kind }) => kind === "checkpoint").length === 2) resolve();
      });
    });
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(seen.map(({ entry }) => entry)).toEqual(seen.map((_, at) => at + 1));
  });

  test("bash completes runs and checkpoints", async () => {
    await run("checkpoint", "--run", "fix-login");
    await run("tag", "fix-login@1", "works");
    const script = `holdfast() { "${process.execPath}" "${holdfast.entry}" "$@"; }
      source <(holdfast completion bash)
      for line in "holdfast list fi" "holdfast restore fix" "holdfast restore fix-login@" "holdfast restore fix-login@wo"; do
        COMP_LINE=$line COMP_POINT=\${#line}; _holdfast; echo "\${COMPREPLY[*]}"
      done`;
    const { stdout } = await promisify(execFile)("bash", ["-c", script], { cwd: repository });
    expect(stdout).toBe("fix-login\nfix-login@\nlatest works 1\nworks\n");
  });
});
