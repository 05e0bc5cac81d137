import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { readWorktree } from "@holdfast/test-support/git/repository";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { gitIn } from "./cli/commands/demo-repository.ts";
import { openHoldfast } from "./open.ts";

const suite = workSuite();

/** Writes files, waits until the remote has them, and is killed once, in the middle of the second step. */
const FLOW = `import { defineWorkflow } from "holdfast";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, symlinkSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
const MARKER = "MARKER_PATH";
const git = (root, ...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" });
export default defineWorkflow({
  name: "moving",
  initial: "write",
  stages: {
    write: async (context) => {
      const root = context.workspace.root;
      await context.step("write", () => {
        writeFileSync(root + "/committed.txt", "committed\\n");
        git(root, "add", "-A");
        git(root, "commit", "-qm", "by a step");
        writeFileSync(root + "/untracked file.bin", Buffer.from([0, 255, 13, 10]));
        writeFileSync(root + "/run.sh", "#!/bin/sh\\n");
        chmodSync(root + "/run.sh", 0o755);
        symlinkSync("README.md", root + "/link");
        writeFileSync(root + "/README.md", "staged\\n");
        git(root, "add", "README.md");
        writeFileSync(root + "/README.md", "changed\\n");
        writeFileSync(MARKER + ".steps", "one", { flag: "a" });
        return null;
      }, { changesFiles: true });
      return { event: "next", reason: "written" };
    },
    use: async (context) => {
      const root = context.workspace.root;
      await context.step("use", async () => {
        if (existsSync(MARKER)) return null;
        writeFileSync(root + "/half.txt", "half\\n");
        writeFileSync(MARKER, root);
        while (true) await setTimeout(1000);
      }, { changesFiles: true });
      return { event: "next", reason: "used" };
    },
  },
  transitions: { write: { next: "use" }, use: { next: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});
`;

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  await vi.waitUntil(isTrue, { timeout: 120_000, interval: 100 });
}

test("a killed run is continued in another clone with the same store, with its files byte for byte", async () => {
  const place = await suite.begin();
  const { clone, remote, git, holdfast } = place;
  const folder = join(clone, "..");
  const [store, other, marker] = [join(folder, "store"), join(folder, "elsewhere/shop two"), join(folder, "marker")];
  await writeFile(join(clone, "holdfast.config.yaml"), "files: { remote: origin }\n");
  await writeFile(join(clone, "flow.ts"), workflowSource(FLOW.replace("MARKER_PATH", marker)));
  await git("add", ".");
  await git("commit", "-qm", "flow");
  await git("push", "-q", "origin", "main");
  await mkdir(join(folder, "elsewhere"));
  await git("clone", "-q", remote, other);
  const at = (cwd: string, ...args: readonly string[]) =>
    holdfast.run(args, { cwd, env: { HOLDFAST_STORE: store, HOLDFAST_TRUST: "" } });

  // A clone may not send files by its settings alone.
  const start = ["run", "--workflow", "flow.ts", "--task", "Move"];
  expect(await at(clone, ...start)).toMatchObject({
    status: 4,
    stderr: expect.stringContaining("files.remote") as string,
  });
  expect((await at(clone, "trust", "--yes")).status).toBe(0);
  expect((await at(other, "trust", "--yes")).status).toBe(0);

  const running = holdfast.start(start, { cwd: clone, env: { HOLDFAST_STORE: store, HOLDFAST_TRUST: "" } });
  const ended = new Promise((resolve) => running.on("exit", resolve));
  await until(async () => existsSync(marker));
  const { runs } = JSON.parse((await at(clone, "--json", "status")).stdout);
  const id: string = runs[0].id;
  const status = async (cwd: string) => JSON.parse((await at(cwd, "--json", "status", id)).stdout).run;
  await until(async () => (await status(clone)).unpushed?.snapshots === 0);
  running.kill("SIGKILL");
  await ended;
  const first = await readFile(marker, "utf8");
  await rm(join(first, "half.txt"));
  const expected = readWorktree(first);
  // The first machine is gone with its repository and worktree.
  await rename(clone, join(folder, "gone"));
  await rename(join(folder, "shop-worktrees"), join(folder, "gone-worktrees"));

  const shown = await at(other, "diff", `${id}@1`, `${id}@latest`);
  expect(shown).toMatchObject({ status: 6, stderr: expect.stringContaining("store fetch") as string });
  const resumed = await at(other, "resume", id, "--trust");
  expect(resumed, resumed.stderr).toMatchObject({ status: 0 });
  expect(await readFile(`${marker}.steps`, "utf8")).toBe("one");
  const there = gitIn(other, { PATH: process.env["PATH"] ?? "" });
  const second = join(folder, "elsewhere/shop two-worktrees", id);
  expect(readWorktree(second)).toEqual(expected);
  expect(await there("-C", second, "log", "-1", "--format=%s")).toBe("by a step");
  expect(await there("-C", second, "show", ":README.md")).toBe("staged");
  expect(await there("-C", second, "diff", "--cached", "--name-only")).toBe("README.md");
  expect(await status(other)).toMatchObject({ unpushed: { remote: "origin", snapshots: 0, problem: null } });
  {
    await using opened = await openHoldfast({ cwd: other, store });
    for await (const event of opened.verify()) expect(event.kind).not.toBe("problem");
  }

  const row = { run: id, snapshots: 0, why: null };
  const same = { remote: "origin", runs: [{ ...row, result: "same" }] };
  for (const action of ["push", "fetch"])
    expect(JSON.parse((await at(other, "--json", "store", action, id)).stdout)).toEqual(same);
  await rename(remote, `${remote}.away`);
  const away = await at(other, "store", "push", id);
  expect(away).toMatchObject({
    status: 1,
    stdout: expect.stringContaining(`${id}: origin refused: missing_remote`) as string,
    stderr: expect.stringContaining(`Sending 1 of 1: ${id} to origin …`) as string,
  });
  expect(await status(other)).toMatchObject({
    unpushed: { snapshots: 0, problem: expect.stringContaining("missing_remote") as string },
  });
  await rename(`${remote}.away`, remote);
  expect(await there("ls-remote", "origin", "refs/holdfast/*")).toContain(id);
  const removed = await at(other, "rm", id, "--force");
  expect(removed, removed.stderr).toMatchObject({ status: 0 });
  expect(await there("ls-remote", "origin", "refs/holdfast/*")).toBe("");
});

const missing = postgresMissing();

test.skipIf(missing !== null)(
  "in PostgreSQL a checkpoint is saved when the remote has its files, or is away",
  async () => {
    const { clone, remote, git } = await suite.begin();
    const store = (await sharedPostgres()).url();
    await using holdfast = await openHoldfast({ cwd: clone, store, filesRemote: "origin" });
    const run = await holdfast.createRun({ id: "first", workspace: "here" });
    const onRemote = async (): Promise<number> =>
      Number(
        await git("--git-dir", remote, "rev-list", "--count", "--first-parent", "--glob=refs/holdfast/first/files/*"),
      );
    for (let saved = 1; saved <= 3; saved += 1) {
      await writeFile(join(clone, "README.md"), `${saved}\n`);
      await run.save();
      // The chain begins with an empty commit.
      expect(await onRemote()).toBe(saved + 1);
    }
    await rename(remote, `${remote}.away`);
    await writeFile(join(clone, "README.md"), "away\n");
    expect((await run.save()).sequence).toBe(4);
    await rename(`${remote}.away`, remote);
    expect(await onRemote()).toBe(4);
    await run.close();
    expect(await onRemote()).toBe(5);
  },
);
