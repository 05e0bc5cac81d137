import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();
const REVIEW = { when: { role: "review" }, scores: { faithful: 95, style: 95, docs: 95, corner_cases: 95 } };
const cannotMount = process.getuid?.() === 0 ? null : "only root may mount a small file system";

interface FullDisk {
  readonly place: WorkPlace;
  /** What lies on the small file system. */
  readonly full: string;
  readonly args: readonly string[];
  /** Fills it to the last byte, as the gate does. */
  fill(): void;
  /** Makes room again. */
  free(): void;
}

/** The store, git's objects or the worktrees lie on a file system of their own, which the gate of the run fills to the last byte. */
async function fullDisk(what: "store" | "objects" | "worktrees"): Promise<FullDisk> {
  const place = await work.begin();
  const full = {
    store: join(place.clone, ".git/holdfast"),
    objects: join(place.clone, ".git/objects"),
    worktrees: join(place.clone, "..", "shop-worktrees"),
  }[what];
  const before = join(place.clone, "..", "before");
  mkdirSync(full, { recursive: true });
  cpSync(full, before, { recursive: true });
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", full], { stdio: "pipe" });
  onTestFinished(() => void execFileSync("umount", ["-l", full]));
  cpSync(before, full, { recursive: true });
  const filler = join(full, "filler");
  const once = join(place.clone, "..", "filled");
  const gate = join(place.clone, "..", "gate.sh");
  await writeFile(
    gate,
    `[ -e ${once} ] && exit 0\ntouch ${once}\ndd if=/dev/zero of=${filler} bs=64k 2>/dev/null\ndd if=/dev/zero of=${filler}2 bs=1k 2>/dev/null\nexit 0\n`,
  );
  const agent = await place.agent([GOOD, REVIEW]);
  return {
    place,
    full,
    args: ["run", "1", "--agent", agent, "--gate", `sh ${gate}`],
    fill: () => void execFileSync("sh", [gate]),
    free() {
      for (const path of [filler, `${filler}2`]) rmSync(path, { force: true });
    },
  };
}

test.skipIf(cannotMount !== null).each(["store", "objects", "worktrees"] as const)(
  `a full disk below the %s: the run waits, says what needs space, and resume continues it (${cannotMount ?? "as root"})`,
  async (what) => {
    const { place, full, args, free } = await fullDisk(what);
    const store = join(place.clone, ".git/holdfast");
    const first = await place.run(...args);
    const said = `${first.stdout}${first.stderr}`;
    expect(first.status, said).toBe(7);
    expect(said.replaceAll(/\s+/g, " ")).toMatch(/The disk is full: .*needs at least 8\.0 MiB, and 0\.\d MiB are free/);
    expect(said.replaceAll(/\s+/g, "")).toContain(realpathSync(full));
    // Only a store that is full itself needs what it kept for this.
    expect(existsSync(join(store, "reserve"))).toBe(what !== "store");
    expect(JSON.stringify(await place.json("status", "1"))).toContain('"on":"disk"');
    expect((await place.run("status", "1")).stdout).not.toContain("crashed");
    // Without room it does not begin again, and costs nothing.
    const again = await place.run("resume", "1");
    expect([again.status, again.stdout.includes("impl #1")], again.stdout + again.stderr).toEqual([7, false]);
    free();
    const done = await place.run("resume", "1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(statSync(join(store, "reserve")).size).toBeGreaterThan(64 * 1024);
    expect((await place.run("verify")).status).toBe(0);
  },
);

test.skipIf(cannotMount !== null)(
  `under --wait it continues when space is back (${cannotMount ?? "as root"})`,
  async () => {
    const { place, args, free } = await fullDisk("store");
    const waiting = place.start(...args, "--wait");
    await waiting.says("The disk is full");
    free();
    const done = await waiting.ended;
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toContain("Done issue-1");
  },
);

test.skipIf(cannotMount !== null)(
  `a disk that is full before the first worktree is made: exit 7, and --wait continues when space is back (${cannotMount ?? "as root"})`,
  async () => {
    const { place, args, fill, free } = await fullDisk("worktrees");
    fill();
    const first = await place.run(...args);
    expect(first.status, first.stdout + first.stderr).toBe(7);
    const waiting = place.start(...args, "--wait");
    await new Promise<void>((resolve, reject) => {
      waiting.child.stderr?.on("data", (text: string) => {
        if (text.includes("Waiting until there is space")) resolve();
      });
      void waiting.ended.then((done) => reject(new Error(`it ended: ${JSON.stringify(done)}`)));
    });
    free();
    const done = await waiting.ended;
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toContain("Done issue-1");
  },
);
