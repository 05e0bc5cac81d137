import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { openHoldfast } from "../../open.ts";

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
});
afterAll(() => journey.holdfast.remove());
beforeEach(async () => {
  await journey.begin();
  for (const text of ["one", "two", "three", "four"]) {
    await journey.write("app.txt", text);
    await journey.run("checkpoint", "--run", "r");
  }
});

const sequences = async () =>
  (await journey.json("list", "r")).checkpoints.map(({ sequence }: { readonly sequence: number }) => sequence);

test("removes checkpoints, leaves tombstones, and changes no file", async () => {
  expect((await journey.run("rm", "r@2", "--dry-run")).stdout).toMatch(/^Would remove r@2 \(/);
  expect(await sequences()).toEqual([4, 3, 2, 1]);
  expect(await journey.json("rm", "r@2", "r@1", "r@2")).toMatchObject({
    removed: [
      { run: "r", sequence: 1, why: expect.stringMatching(/^removed by /) },
      { run: "r", sequence: 2 },
    ],
    dryRun: false,
  });
  expect(await sequences()).toEqual([4, 3]);
  expect((await journey.run("events", "r")).stdout).toMatch(/checkpoint\.dropped/);
  expect(await journey.fails(3, "show", "r@2")).toContain("removed by");
  expect((await journey.run("diff", "r@4", "--name-only")).stdout).toBe("");
  expect((await journey.run("verify")).status).toBe(0);
});

test("refuses the newest, a tagged one without --force, and a mixture with runs; then nothing is removed", async () => {
  await journey.run("tag", "r@2", "works");
  expect(await journey.fails(4, "rm", "r@1", "r@2")).toContain("r@2 is protected: tagged works");
  expect(await journey.fails(2, "rm", "r@1", "r@latest", "--force")).toContain("newest checkpoint of r");
  expect(await journey.fails(2, "rm", "r", "r@1")).toContain("Both runs and checkpoints");
  expect(await sequences()).toEqual([4, 3, 2, 1]);
  expect((await journey.run("rm", "r@works", "--force")).stdout).toMatch(/^Removed r@2; freed /);
  expect(await sequences()).toEqual([4, 3, 1]);
  expect((await journey.json("tag", "r")).tags).toEqual([]);
});

async function commitAll(): Promise<void> {
  await journey.git("config", "user.name", "A");
  await journey.git("config", "user.email", "a@localhost");
  await journey.git("add", ".");
  await journey.git("commit", "-qm", "app");
}

const LOOP = [
  "run",
  "--workflow",
  "ralph",
  "--task",
  "add a line",
  "--until",
  "grep -q x app.txt",
  "-a",
  "command:echo x >> app.txt",
];

/** Everything in git that a run can leave. */
async function remains(): Promise<string> {
  const outputs = await Promise.all(
    [["for-each-ref"], ["worktree", "list"], ["log", "--all", "--oneline"], ["status", "--short"]].map(
      async (args) => await journey.git(...args),
    ),
  );
  return JSON.stringify(outputs);
}

test("a whole run: refused while it has not ended or is unmerged; removed with worktree, branch, refs and log", async () => {
  await commitAll();
  expect(await journey.fails(4, "rm", "r")).toMatch(
    /r is not removed: you saved it by hand, and its 4 checkpoints are nowhere else \[/,
  );
  {
    await using holdfast = await openHoldfast({ cwd: journey.repository(), create: false });
    await using handle = await holdfast.run("r");
    await handle.save({});
    for (const force of [[], ["--force"]]) {
      const refused = await journey.fails(5, "rm", "r", ...force);
      expect(refused).toContain(`r is not removed: it is running in`);
      expect(refused).toContain("`holdfast stop r`");
      expect((await journey.run("rm", "r", "--dry-run", ...force)).stdout).toBe(
        "Would keep r: it is running.\nStop it first: holdfast stop r\n",
      );
    }
  }
  await journey.run("rm", "r", "--force");
  const before = await remains();
  expect((await journey.run(...LOOP)).status).toBe(0);
  const [{ id }] = (await journey.json("list")).runs;
  // Nothing is left to continue of a run that is done, so an import of it does not propose that.
  const file = `${journey.repository()}.run`;
  await journey.run("format", "export", id, "--to", "run", "--output", file);
  expect((await journey.run("format", "import", file)).stderr).toBe(`Show it:     holdfast show ${id}\nIt is done.\n`);
  expect(await journey.fails(4, "rm", id)).toContain("its branch has 1 unmerged commit");
  expect((await journey.run("rm", "--done")).stdout).toBe(
    `Kept ${id}: its branch has 1 unmerged commit.\nTo remove them all the same, add --force.\n`,
  );
  expect(await journey.json("rm", id, "--force", "--dry-run")).toMatchObject({
    runs: [{ run: id, state: "done", branch: `holdfast/${id}`, removed: false }],
    dryRun: true,
  });
  // The worktree of another repository stays. After a move of this one, the link is dead and the worktree is known by its name.
  const worktree: string = join(`${journey.repository()}-worktrees`, id);
  await writeFile(join(worktree, ".git"), `gitdir: ${journey.repository()}/.git\n`);
  expect((await journey.run("rm", id, "--force", "--dry-run")).stdout).toContain(
    `\n  ${worktree} stays: it leads to another repository than this one.\n  To remove it as well, link it first: git worktree repair ${worktree}\n`,
  );
  await writeFile(join(worktree, ".git"), `gitdir: /moved/.git/worktrees/${id}\n`);
  expect((await journey.run("rm", id, "--force", "--dry-run")).stdout).toMatch(/^Would remove \S+: its worktree, /);
  expect((await journey.run("rm", "--older-than", "1d", "--force")).stdout).toBe("No run to remove.\n");
  expect((await journey.run("rm", "--done", "--force")).stdout).toMatch(
    new RegExp(`^Removed ${id}: its worktree, branch`),
  );
  expect(await remains()).toBe(before);
  expect(existsSync(`${journey.repository()}-worktrees`)).toBe(false);
  expect((await journey.json("list")).runs).toEqual([]);
  for (const command of ["status", "resume", "show"])
    expect(await journey.fails(3, command, id)).toContain(`Run ${id} was removed on`);
  expect(await journey.run("verify")).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^Intact: no runs, 2 removed runs, \d+ journal entries/),
  });
  // The same work is a new run with another id.
  expect((await journey.run(...LOOP)).status).toBe(0);
  expect((await journey.json("list")).runs).toMatchObject([{ status: { kind: "done" } }]);
  expect((await journey.json("list")).runs[0].id).not.toBe(id);
});

test("a pull request that was squashed counts as merged", async () => {
  await commitAll();
  const remote = `${journey.repository()}.git`;
  await journey.git("init", "-q", "--bare", "-b", "main", remote);
  await journey.git("remote", "add", "origin", remote);
  await journey.git("push", "-q", "origin", "HEAD:refs/heads/main");
  const work = ["run", "--task", "add a line", "-a", "command:echo x >> app.txt", "--no-review"];
  expect((await journey.run(...work)).status).toBe(0);
  expect(await journey.fails(4, "rm", "1")).toContain("its branch has 1 unmerged commit");
  // As a forge does that makes one new commit of all: no branch gets the commits themselves.
  const file = join(remote, "holdfast-forge/pulls/2.json");
  const pull = JSON.parse(await readFile(file, "utf8"));
  await writeFile(file, JSON.stringify({ ...pull, state: "merged", mergeCommit: pull.baseCommit }));
  expect((await journey.run("rm", "1")).stdout).toMatch(
    /^Removed issue-1: its worktree, branch holdfast\/issue-1, .*; 2 receipts kept\.$/m,
  );
  expect(JSON.stringify(await journey.git("log", "--all", "--oneline"))).not.toContain("iteration 1");
  expect(await journey.fails(3, "status", "issue-1")).toContain(`It had opened ${pathToFileURL(file).href}`);
});

/** A fork of r with a worktree and a branch of its own. */
async function fork(id: string): Promise<string> {
  expect((await journey.run("fork", "r@4", "--as", id)).status).toBe(0);
  return join(`${journey.repository()}-worktrees`, id);
}

const commitIn = async (worktree: string) =>
  await journey.git("-C", worktree, "commit", "-q", "--allow-empty", "-m", "w");

const refText = async (ref: string) => JSON.stringify(await journey.git("for-each-ref", "--format=<%(refname)>", ref));

test("refuses what exists nowhere else, and keeps what is not the run's", async () => {
  await commitAll();
  const detached = await fork("detached");
  // The command that the hint names removes both.
  expect(await journey.fails(4, "rm", "r")).toContain("`holdfast rm r detached --force`");
  expect((await journey.run("rm", "r", "detached", "--force", "--dry-run")).stdout).toMatch(/Would remove r:/);
  await journey.git("-C", detached, "checkout", "-q", "--detach");
  await commitIn(detached);
  const unmerged = "the detached HEAD of its worktree has 1 unmerged commit";
  expect(await journey.fails(4, "rm", "detached")).toContain(unmerged);
  // Moved to where it is not found, its entry in the repository has the commit.
  await rename(detached, `${detached}.moved`);
  expect(await journey.fails(4, "rm", "detached")).toContain(unmerged);
  await rename(`${detached}.moved`, detached);

  const ignored = await fork("ignored");
  await mkdir(join(ignored, "node_modules"));
  for (const name of ["a.log", "node_modules/b.log"]) await writeFile(join(ignored, name), "x");
  expect(await journey.fails(4, "rm", "ignored")).toContain("its worktree has 1 ignored file (a.log)");
  expect((await journey.run("rm", "ignored", "--force", "--dry-run")).stdout).toContain(
    "worktree with 1 ignored file,",
  );
  await journey.git("-C", ignored, "switch", "-q", "-c", "topic");
  await journey.runIn(relative(journey.repository(), ignored), ["checkpoint", "--run", "ignored"]);

  const deleted = await fork("deleted");
  await commitIn(deleted);
  expect(
    (await journey.runIn(relative(journey.repository(), deleted), ["checkpoint", "--run", "deleted"])).status,
  ).toBe(0);
  await journey.git("update-ref", "-d", "refs/heads/holdfast/deleted");
  expect(await journey.fails(4, "rm", "deleted")).toContain("its checkpoints have the only copy of 1 commit");

  const reset = await fork("reset");
  const save = async () => {
    const saved = await journey.runIn(relative(journey.repository(), reset), ["checkpoint", "--run", "reset"]);
    expect(saved.status).toBe(0);
  };
  await commitIn(reset);
  await save();
  const dropped = (await readFile(join(journey.repository(), ".git/refs/heads/holdfast/reset"), "utf8")).slice(0, 12);
  await journey.git("-C", reset, "reset", "-q", "--hard", "HEAD~1");
  await save();
  const refused = await journey.fails(4, "rm", "reset");
  expect(refused).toContain(`its checkpoints have the only copy of 1 commit (${dropped})`);
  expect(refused).toContain(`To keep a commit: \`git branch NAME ${dropped}\`.`);

  // A fork needs the journal of its parent.
  expect(await journey.fails(4, "rm", "r", "deleted", "reset", "--force")).toMatch(
    /r is not removed: (?=.*detached was forked from it)(?=.*ignored was forked from it)(?!.*(?:deleted|reset) was)/,
  );
  expect(existsSync(deleted)).toBe(true);

  await fork("mine");
  await journey.git("checkout", "-q", "--ignore-other-worktrees", "holdfast/mine");
  await journey.git("update-ref", "refs/remotes/origin/holdfast/detached", "HEAD");
  await commitIn(journey.repository());
  await journey.git("update-ref", "refs/remotes/origin/holdfast/ignored", "HEAD");
  await journey.git("reset", "-q", "--hard", "HEAD~1");
  const removed = await journey.run("rm", "r", "deleted", "reset", "detached", "ignored", "mine", "--force");
  expect(removed).toMatchObject({ status: 0, stderr: "" });
  expect(removed.stdout).toContain(`  Branch holdfast/mine stays: it is checked out in ${journey.repository()}.\n`);
  expect(removed.stdout).toContain("  Branch topic stays. If you do not need it:\n    git branch -d topic\n");
  expect(await refText("refs/heads/topic")).toContain("topic");
  expect(removed.stdout).toContain("  origin/holdfast/ignored stays: it has commits that no other branch has.\n");
  expect(await refText("refs/heads/holdfast")).toContain("<refs/heads/holdfast/mine>");
  expect(await refText("refs/remotes")).toContain("<refs/remotes/origin/holdfast/ignored>");
  expect(await refText("refs/remotes")).not.toContain("detached");
  expect((await journey.json("list")).runs).toEqual([]);
});

test("a repeated command needs its own --force, and a directory of the user stays", async () => {
  await commitAll();
  const mine = `${journey.repository()}-mine`;
  await mkdir(mine);
  await journey.write("holdfast.config.yaml", `workspace:\n  worktrees: ${mine}\n`);
  await fork("f");
  await commitIn(join(mine, "f"));
  const lock = join(journey.repository(), ".git/refs/heads/holdfast/f.lock");
  await writeFile(lock, "");
  expect((await journey.run("rm", "f", "--force")).status).not.toBe(0);
  await rm(lock);
  expect(await journey.fails(4, "rm", "f")).toContain("its branch has 1 unmerged commit");
  expect(await refText("refs/heads/holdfast")).toContain("holdfast/f>");
  expect((await journey.run("rm", "f", "--force")).status).toBe(0);
  expect(await refText("refs/heads/holdfast")).not.toContain("holdfast/f>");
  expect(existsSync(mine)).toBe(true);
});

/**
 * A module for `node --import`. It logs each operation that writes. Before one of them it kills the process, or writes a file as another
 * process would. With OTHER_DISK, the worktree is on another disk than the repository.
 */
const OPERATIONS = `
import child from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { DatabaseSync, StatementSync } from "node:sqlite";
const { appendFileSync } = fs;
let count = 0;
for (const [holder, names] of [
  [fs.promises, ["mkdir", "open", "rename", "rm", "rmdir"]],
  [fs, ["fsyncSync", "renameSync", "rmSync", "unlinkSync", "writeSync"]],
  [child, ["spawn"]],
  [DatabaseSync.prototype, ["exec"]],
  [StatementSync.prototype, ["run"]],
]) for (const name of names) {
  const real = holder[name];
  holder[name] = function (...args) {
    count += 1;
    const { KILL_BEFORE, LATE_FILE, OTHER_DISK } = process.env;
    if (count === Number(KILL_BEFORE)) {
      if (LATE_FILE === undefined) process.kill(process.pid, "SIGKILL");
      else try { fs.writeFileSync(LATE_FILE, "late"); appendFileSync(process.env.OPERATIONS, "late\\n"); } catch {}
    }
    if (OTHER_DISK !== undefined && name === "rename" && String(args[1]).endsWith("/tree"))
      return Promise.reject(Object.assign(new Error("EXDEV"), { code: "EXDEV" }));
    appendFileSync(process.env.OPERATIONS, name + " " + String(args[0]).replaceAll("\\n", " ") + "\\n");
    return Reflect.apply(real, this, args);
  };
}
syncBuiltinESMExports();
`;

/** Runs the command, killed before its nth operation; 0: not killed. Returns the operations that it did. */
async function runKilled(
  args: readonly string[],
  at: number,
  env: Readonly<Record<string, string>> = {},
): Promise<readonly string[]> {
  const [module, log] = ["operations.mjs", "operations.log"].map((name) => join(journey.holdfast.directory, name));
  if (module === undefined || log === undefined) throw new Error("two files were named");
  await writeFile(module, OPERATIONS);
  await writeFile(log, "");
  const node = ["--import", pathToFileURL(module).href];
  await journey.runIn(".", args, { node, env: { ...env, KILL_BEFORE: String(at), OPERATIONS: log } });
  return (await readFile(log, "utf8")).trimEnd().split("\n");
}

test("killed at any operation, the run is listed, new work is safe, and the same command completes the removal", async () => {
  await commitAll();
  const before = await remains();
  await fork("whole");
  const operations = await runKilled(["rm", "whole", "--force"], 0);
  const kills = operations.map((operation, at) => ({ name: `${at + 1} ${operation}`, at: at + 1 }));
  const recorded = operations.findIndex((operation) => operation.startsWith("run fact/run.removed."));
  expect(recorded).toBeGreaterThan(0);
  const chosen = [...sampleBySeed(kills.slice(0, recorded), 1), ...sampleBySeed(kills.slice(recorded), 3)];
  for (const [at, kill] of chosen.entries()) {
    const id = `f${at}`;
    const worktree = await fork(id);
    await runKilled(["rm", id, "--force"], kill.at);
    const { runs, halfRemoved = [] } = await journey.json("list");
    const isListed = (list: readonly object[], key: string): boolean =>
      list.some((one) => Object.entries(one).some(([name, value]) => name === key && value === id));
    const isHalf = isListed(halfRemoved, "run");
    expect(isHalf && isListed(runs, "id"), kill.name).toBe(false);
    if (isHalf) expect((await journey.run("doctor")).stdout, kill.name).toContain(`run ${id} is half removed`);
    if (existsSync(worktree)) {
      await writeFile(join(worktree, "new.txt"), "new");
      expect(await journey.fails(4, "rm", id), kill.name).toContain("its worktree has 2 uncommitted files");
      expect(existsSync(join(worktree, "new.txt")), kill.name).toBe(true);
    }
    expect(await journey.run("rm", id, "--force"), kill.name).toMatchObject({ status: 0, stderr: "" });
    expect(await remains(), kill.name).toBe(before);
    expect(existsSync(worktree), kill.name).toBe(false);
    expect((await journey.json("list")).halfRemoved, kill.name).toBeUndefined();
  }
  // The worktree is gone and the rest is not: what no command could lose is completed by `rm --done` and by `gc`.
  for (const [id, ...complete] of [
    ["half-rm", "rm", "--done"],
    ["half-gc", "gc", "--yes"],
  ] as const) {
    await fork(id);
    const path = join(journey.repository(), `.git/refs/heads/holdfast/${id}.lock`);
    await writeFile(path, "");
    expect((await journey.run("rm", id, "--force")).status).not.toBe(0);
    await rm(path);
    expect((await journey.run("list")).stdout).toContain(`${id}: half removed. Complete it: holdfast rm ${id}\n`);
    expect(await journey.fails(3, "resume", id)).toContain(`Run ${id} is half removed`);
    expect((await journey.run(...complete)).status).toBe(0);
    expect(await remains()).toBe(before);
  }
  expect((await journey.run("verify")).status).toBe(0);
});

test("gc saves and removes the worktree of an ended run, restore creates it again; a kill loses nothing", async () => {
  await commitAll();
  await journey.write(".gitignore", "*.log\n.env\nvendor/\n");
  await journey.git("commit", "-qam", "ignore");
  expect((await journey.run(...LOOP)).status).toBe(0);
  const [{ id }] = (await journey.json("list")).runs;
  const tree = join(`${journey.repository()}-worktrees`, id);
  const listed = async () => JSON.stringify(await journey.git("worktree", "list", "--porcelain"));
  const edit = async (text: string) => {
    await writeFile(join(tree, "new.txt"), text);
    await writeFile(join(tree, "app.txt"), `${text}, too`);
  };
  const files = async () => [
    await readFile(join(tree, "new.txt"), "utf8"),
    await readFile(join(tree, "app.txt"), "utf8"),
  ];

  const force = `To remove it all the same: \`holdfast gc ${id} --force\``;
  await edit("mine");
  await writeFile(join(tree, ".env"), "only here");
  expect((await journey.json("gc", "--dry-run")).worktrees).toEqual([]);
  expect(await journey.json("gc", id, "--dry-run")).toMatchObject({
    worktrees: [
      {
        run: id,
        path: tree,
        kept: `it has ignored files that no set-up makes: .env. ${force}`,
        ignored: [".env"],
        unsaved: true,
      },
    ],
  });
  expect((await journey.run("gc", id, "--yes")).stdout).toContain(`Kept the worktree ${tree} of ${id}: it has ignored`);
  expect(await journey.fails(4, "gc", id, "--force")).toContain("cannot ask whether worktrees may be removed");
  expect(await files()).toEqual(["mine", "mine, too"]);
  await rm(join(tree, ".env"));
  const inside = await journey.runIn(`../${basename(journey.repository())}-worktrees/${id}`, ["gc", id, "--yes"]);
  expect(inside.stdout).toContain("you are in it");

  // What a restore does not bring back keeps the worktree.
  const kept = async () => (await journey.json("gc", id, "--dry-run")).worktrees[0].kept;
  await journey.git("init", "-q", join(tree, "vendor/lib"));
  await mkdir(join(tree, "vendor/lib/.git/objects/empty"));
  expect(await kept()).toBe(`it has repositories of their own: vendor/lib. ${force}`);
  expect(await journey.fails(4, "rm", id)).toContain("its worktree has 1 repository of its own (vendor/lib/)");
  await rm(join(tree, "vendor"), { recursive: true });
  const branch = `holdfast/${id}`;
  await journey.git("-C", tree, "checkout", "-q", "--detach");
  await journey.git("-C", tree, "update-ref", "refs/worktree/mine", "HEAD");
  await journey.git("-C", tree, "add", "new.txt");
  await edit("mine, later");
  expect(await kept()).toMatch(
    /^it has a detached HEAD: [0-9a-f]{12}; staged changes that the files do not have: new.txt; refs of its own: refs\/worktree\/mine\. To/,
  );
  await rename(tree, `${tree}.moved`);
  expect(await kept()).toMatch(/^it has a detached HEAD: [0-9a-f]{12}\. To remove it all the same: /);
  await rename(`${tree}.moved`, tree);
  await journey.git("-C", tree, "update-ref", "-d", "refs/worktree/mine");
  await journey.git("-C", tree, "reset", "-q");
  await journey.git("-C", tree, "symbolic-ref", "HEAD", `refs/heads/${branch}`);
  await edit("mine");
  const shell = spawn("sleep", ["600"], { cwd: tree, stdio: "ignore" });
  try {
    expect(await kept()).toBe(`processes work in it: sleep (${shell.pid})`);
  } finally {
    shell.kill("SIGKILL");
    await once(shell, "exit");
  }

  const operations = await runKilled(["gc", id, "--yes"], 0);
  await journey.git("merge", "-q", "--squash", branch);
  await journey.git("commit", "-qm", "squashed");
  const only = `its checkpoints have the only copy of 2 uncommitted files (${(await newest(id)).id}:app.txt, ${(await newest(id)).id}:new.txt)`;
  expect((await journey.run("rm", "--done")).stdout).toContain(`Kept ${id}: ${only}.\n`);
  expect(await journey.fails(4, "rm", id)).toContain(
    `To get the files: \`holdfast restore ${(await newest(id)).id}\`.`,
  );
  expect([existsSync(dirname(tree)), (await listed()).includes(tree)]).toEqual([false, false]);
  expect((await journey.run("restore", `${id}@latest`, "--dry-run")).stdout).toBe(
    `Would create the worktree ${tree} again, with the files of the newest checkpoint, and then restore ${(await newest(id)).id}.\n`,
  );
  expect(await journey.fails(4, "restore", `${id}@latest`)).toContain("may be created again");
  expect((await journey.run("restore", `${id}@latest`, "--yes")).stdout).toBe(
    `Restored ${(await newest(id)).id}: the worktree has its files, also the uncommitted ones.\n`,
  );
  expect(await files()).toEqual(["mine", "mine, too"]);

  const kills = operations.map((operation, at) => ({ name: `${at + 1} ${operation}`, at: at + 1 }));
  const beside = async () => await readdir(dirname(tree)).catch(() => []);
  const restored = async (name: string) => {
    const again = await journey.run("restore", `${id}@latest`, "--yes");
    expect([name, again.status, await files()], again.stderr).toEqual([name, 0, [name, `${name}, too`]]);
  };
  for (const [turn, { name, at }] of sampleBySeed(kills, 2, "gc").entries()) {
    await edit(name);
    await runKilled(["gc", id, "--yes"], at, turn === 0 ? {} : { OTHER_DISK: "yes" });
    expect([name, (await journey.run("gc", id, "--yes")).status]).toEqual([name, 0]);
    expect([name, existsSync(tree), (await listed()).includes(tree)]).toEqual([name, false, false]);
    expect([name, await beside()]).toEqual([name, []]);
    await runKilled(["restore", `${id}@latest`, "--yes"], at);
    // A worktree without all its files is not saved as the newest checkpoint.
    expect([name, (await journey.run("gc", id, "--yes")).status]).toEqual([name, 0]);
    await restored(name);
  }
  // On another disk its files are deleted one by one. A kill among them leaves no half of a worktree.
  await edit("half");
  const deletions = (await runKilled(["gc", id, "--yes"], 0, { OTHER_DISK: "yes" })).flatMap((operation, at) =>
    operation.includes(".deleting") ? [{ name: operation, at: at + 1 }] : [],
  );
  await restored("half");
  const half = sampleBySeed(deletions.slice(2), 1, "half");
  expect(half).toHaveLength(1);
  for (const { name, at } of half) {
    await edit(name);
    await runKilled(["gc", id, "--yes"], at, { OTHER_DISK: "yes" });
    expect([name, (await journey.run("gc", id, "--yes")).status, await beside()]).toEqual([name, 0, []]);
    await restored(name);
  }
  // What another process writes meanwhile is in the checkpoint, or keeps the worktree.
  for (const file of ["late.txt", ".env"])
    for (const { name, at } of sampleBySeed(kills, 1, file)) {
      const path = join(tree, file);
      await rm(path, { force: true });
      await edit(name);
      const isLate = (await runKilled(["gc", id, "--yes"], at, { LATE_FILE: path })).includes("late");
      if (!existsSync(tree)) await restored(name);
      expect([name, file, existsSync(path)]).toEqual([name, file, isLate]);
      await rm(path, { force: true });
    }
  expect((await journey.json("show", id)).run).toMatchObject({ status: { kind: "done" } });
  // A fork needs no worktree of its source, and a resume creates it again.
  await journey.json("gc", id, "--yes");
  expect((await journey.run("fork", `${id}@latest`, "--as", "fork")).status).toBe(0);
  expect((await journey.run("resume", `${id}@latest`, "--force")).status).toBe(0);
  expect(existsSync(join(tree, "new.txt"))).toBe(true);
  expect((await journey.run("verify")).status).toBe(0);
});

async function newest(run: string): Promise<{ readonly id: string }> {
  return (await journey.json("list", run)).checkpoints[0];
}
