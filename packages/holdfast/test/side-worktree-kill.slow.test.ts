import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { startCommitted, userState } from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { chanceOf, isFullRun, sample, suiteSeed } from "./faults/harness/seed.ts";

const CHILD = join(import.meta.dirname, "../../test-support/src/store-processes/side-worktree-life.ts");
vi.setConfig({ testTimeout: isFullRun() ? 3_600_000 : 240_000 });

/**
 * A repository with a run's worktree, and a git that kills its parent at its n-th call, and then either continues or
 * exits too.
 */
async function createPlace() {
  const repo = startCommitted({ "a.txt": "one\n", "d/b.txt": "two\n" });
  const workspaces = await openGitWorkspaces(repo.root);
  onTestFinished(() => workspaces.close());
  const own = await workspaces.create({ run: "r" });
  const at = "2026-01-02T03:04:05Z";
  const base = await workspaces.sideWorktrees.commit({ run: "r", files: await own.look({ at }), at });
  const folder = join(repo.root, "../bin");
  const counter = join(folder, "count");
  mkdirSync(folder);
  const path = process.env["PATH"] ?? "";
  const script = [
    "#!/bin/sh",
    'printf . >> "$COUNTER"',
    // Two may come at once, and one may be git's own child.
    'if [ "$DIE_AT" -gt 0 ] && [ "$(wc -c < "$COUNTER")" -ge "$DIE_AT" ]; then',
    '  kill -9 "$(cat "$COUNTER.pid")"; [ "$THEN" = on ] || exit 1',
    "fi",
    `PATH='${path}' exec git "$@"`,
  ];
  writeFileSync(join(folder, "git"), script.map((line) => `${line}\n`).join(""));
  chmodSync(join(folder, "git"), 0o755);
  return {
    repo,
    workspaces,
    base,
    live: (dieAt: number, then: "on" | "gone") => {
      rmSync(counter, { force: true });
      const env = { ...process.env, PATH: `${folder}:${path}`, COUNTER: counter, DIE_AT: String(dieAt), THEN: then };
      return new Promise<{ readonly by: string; readonly said: string; readonly calls: number }>((resolve) => {
        execFile(process.execPath, ["--no-warnings", CHILD, repo.root, base], { env }, (error, said, complaint) => {
          const by = error === null ? "ended" : (error.signal ?? complaint);
          resolve({ by, said, calls: readFileSync(counter).length });
        });
      });
    },
  };
}

test("killed at any git call while a side worktree is created, held or removed, the next call completes it and leaves nothing", async () => {
  const calm = await createPlace();
  const before = userState(join(calm.repo.root, ".git"));
  const { by, said, calls } = await calm.live(0, "on");
  expect([by, said]).toEqual(["ended", expect.stringMatching(/^placed\nheld [0-9a-f]+\nremoved\n$/)]);
  expect(calls).toBeGreaterThan(30);
  expect(userState(join(calm.repo.root, ".git"))).toEqual(before);

  const seed = suiteSeed();
  const kills = Array.from({ length: calls }, (_, at) => at + 1);
  for (const dieAt of sample(chanceOf(seed, "side-worktree-kill"), kills, 5)) {
    const then = dieAt % 2 === 0 ? "on" : "gone";
    const where = `HOLDFAST_SEED=${seed}, call ${dieAt} of ${calls}, ${then}`;
    const place = await createPlace();
    const untouched = userState(join(place.repo.root, ".git"));
    expect([where, (await place.live(dieAt, then)).by]).toEqual([where, "SIGKILL"]);
    const next = await place.live(0, "on");
    expect([where, next.by]).toEqual([where, "ended"]);
    const held = /held ([0-9a-f]+)/.exec(next.said)?.[1] ?? "";
    expect(place.repo.git("show", `${held}:work.txt`)).toBe("work\n");
    expect(place.repo.git("diff", "--name-only", place.base, held)).toBe("work.txt\n");
    const { sideWorktrees } = place.workspaces;
    expect([where, await sideWorktrees.list()]).toEqual([where, []]);
    expect(existsSync(dirname(sideWorktrees.rootOf({ run: "r", name: "x" })))).toBe(false);
    expect(place.repo.git("worktree", "list", "--porcelain")).not.toContain(".side/");
    expect([where, userState(join(place.repo.root, ".git"))]).toEqual([where, untouched]);
  }
});
