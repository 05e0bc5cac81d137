import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { startCommitted, startWorkspace } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { syncFileSystem } from "./objects.ts";
import { openGitWorkspaces } from "./workspaces.ts";

/**
 * Replaces `sync` for the rest of a test: with `-f` it runs `answer` as shell code, otherwise it succeeds. Returns the
 * recorded calls.
 */
function fakeSync(answer: string): () => readonly string[] {
  const bin = join(scratchDirectory(onTestFinished), "bin");
  const log = join(bin, "log");
  mkdirSync(bin);
  const script = `#!/bin/sh\necho "sync $*" >> '${log}'\nif [ "$1" = -f ]; then ${answer}; fi\n`;
  writeFileSync(join(bin, "sync"), script, { mode: 0o755 });
  const path = process.env["PATH"] ?? "";
  process.env["PATH"] = `${bin}${delimiter}${path}`;
  onTestFinished(() => void (process.env["PATH"] = path));
  return () => readFileSync(log, "utf8").split("\n").slice(0, -1);
}

/** Kills git at its call number `dieAt` from now on. Returns how many calls there were. */
function killGitAt(dieAt: number): () => number {
  const bin = scratchDirectory(onTestFinished);
  const counter = join(bin, "count");
  const path = process.env["PATH"] ?? "";
  const script = `#!/bin/sh
printf . >> '${counter}'
[ "$(wc -c < '${counter}')" -eq ${dieAt} ] && kill -9 $$
PATH='${path}' exec git "$@"
`;
  writeFileSync(join(bin, "git"), script, { mode: 0o755 });
  process.env["PATH"] = `${bin}${delimiter}${path}`;
  const restore = (): void => void (process.env["PATH"] = path);
  onTestFinished(restore);
  return () => {
    restore();
    return existsSync(counter) ? readFileSync(counter).length : 0;
  };
}

test.each(["loose", "packed"])("a git that is killed does not make %s objects count as missing", async (kind) => {
  const { repo, workspaces, snapshot } = await startWorkspace();
  repo.write("a.txt", "new\n");
  const files = await snapshot();
  if (kind === "packed") repo.git("gc", "--quiet");
  for (let dieAt = 1; ; dieAt += 1) {
    const calls = killGitAt(dieAt);
    const answer = await openGitWorkspaces(repo.root)
      .then((fresh) => fresh.has(files))
      .catch((error: unknown) => error);
    if (calls() < dieAt) {
      expect([answer, dieAt > 2]).toEqual([true, true]);
      break;
    }
    expect(answer).toMatchObject({ code: "GIT_FAILED", data: { ended: "signalled" } });
  }
  expect(await workspaces.has({ ...files, snapshot: "0".repeat(40) })).toBe(false);
});

describe.runIf(process.platform === "linux")("syncing a file system", () => {
  test.each([
    ["Input/output error", "IO_FAILED"],
    ["No space left on device", "DISK_FULL"],
  ])("that fails with %s is reported, and never hidden by a sync that cannot fail", async (why, code) => {
    const asked = fakeSync(`echo "sync: error syncing '$2': ${why}" >&2; exit 1`);
    await expect(syncFileSystem("/invalid option/usage")).rejects.toMatchObject({ code });
    expect(asked()).toEqual(["sync -f /invalid option/usage"]);
  });

  test("with a program that cannot sync single file systems: all of them are synced", async () => {
    const asked = fakeSync(`echo "sync: invalid option -- 'f'" >&2; exit 1`);
    await syncFileSystem("/invalid option/usage");
    expect(asked()).toEqual(["sync -f /invalid option/usage", "sync "]);
  });

  test("on macOS the drive is flushed too, by a new file that does not stay", async () => {
    const folder = scratchDirectory(onTestFinished);
    const scratch = scratchDirectory(onTestFinished);
    const asked = fakeSync("exit 0");
    const probe = await open(folder, "r");
    const synced: number[] = [];
    const sync = vi.spyOn(Object.getPrototypeOf(probe), "sync").mockImplementation(async function (this: FileHandle) {
      synced.push((await this.stat()).size, readdirSync(scratch).length);
    });
    onTestFinished(() => sync.mockRestore());
    await probe.close();
    await syncFileSystem(folder, { platform: "darwin", scratch });
    expect(asked()).toEqual(["sync "]);
    expect(synced).toEqual([1, 1, statSync(folder).size, 0]);
    expect([readdirSync(folder), readdirSync(scratch)]).toEqual([[], []]);
  });

  test("objects on another disk are synced with the rest", async (context) => {
    const { repo, snapshot } = await startWorkspace();
    const elsewhere = mkdtempSync(join(existsSync("/var/tmp") ? "/var/tmp" : tmpdir(), "holdfast-objects-"));
    onTestFinished(() => rmSync(elsewhere, { recursive: true }));
    if (statSync(elsewhere).dev === statSync(repo.root).dev) context.skip("one disk only");
    const objects = repo.path(".git/objects");
    cpSync(objects, join(elsewhere, "objects"), { recursive: true });
    rmSync(objects, { recursive: true });
    symlinkSync(join(elsewhere, "objects"), objects);
    const asked = fakeSync("exit 0");
    repo.write("a.txt", "new\n");
    await snapshot();
    const both = [`sync -f ${repo.path(".git")}`, `sync -f ${objects}`];
    // A new HEAD is synced before a ref protects it.
    expect(asked()).toEqual([...both, ...both]);
    repo.write("a.txt", "newer\n");
    await snapshot();
    expect(asked()).toEqual([...both, ...both, ...both]);
  });

  test("the files of a new worktree are synced with the repository; on another disk they are synced before it", async (context) => {
    const repo = startCommitted();
    const workspaces = await openGitWorkspaces(repo.root);
    const asked = fakeSync("exit 0");
    await workspaces.create({ run: "near" });
    const common = `sync -f ${repo.path(".git")}`;
    expect(asked()).toEqual([common, common]);
    const elsewhere = mkdtempSync(join(existsSync("/var/tmp") ? "/var/tmp" : tmpdir(), "holdfast-worktree-"));
    onTestFinished(() => rmSync(elsewhere, { recursive: true }));
    if (statSync(elsewhere).dev === statSync(repo.root).dev) context.skip("one disk only");
    const path = join(elsewhere, "far");
    await workspaces.create({ run: "far", path });
    expect(asked()).toEqual([common, common, common, `sync -f ${path}`, common]);
  });

  test("a new worktree whose sync fails stays unfinished, and the same call finishes it", async () => {
    const repo = startCommitted();
    const workspaces = await openGitWorkspaces(repo.root);
    const mark = repo.path(".git/worktrees/r/holdfast-making");
    // The first sync is that of the owner's record.
    fakeSync(`[ ! -e '${repo.path("../repo-worktrees/r/a.txt")}' ] || { echo Input/output error >&2; exit 1; }`);
    await expect(workspaces.create({ run: "r", path: repo.path("../repo-worktrees/r") })).rejects.toMatchObject({
      code: "IO_FAILED",
    });
    expect([existsSync(mark), await workspaces.find("r")]).toEqual([true, undefined]);
    process.env["PATH"] = (process.env["PATH"] ?? "").split(delimiter).slice(1).join(delimiter);
    expect((await workspaces.create({ run: "r" })).root).toBe(repo.path("../repo-worktrees/r"));
    expect(existsSync(mark)).toBe(false);
  });
});
