import { execFileSync } from "node:child_process";
import { mkdir, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { buildCommand } from "@holdfast/test-support/built-command";
import { HoldfastError } from "@holdfast/platform/error";
import { type Mounted, mountSmall, whyNoMount } from "./harness/mounted.ts";
import { sample } from "./harness/seed.ts";
import { faultSuite } from "./harness/suite.ts";
import { type Bad, judgeSafely } from "./harness/sweep.ts";
import { writerCommand } from "./harness/writer.ts";
import { verifyStore } from "./judges/judge-store.ts";
import { openStore } from "./judges/open-store.ts";
import { storeIn, storeSubject } from "./judges/store-subject.ts";
import { parsePrinted } from "./writers/printed.ts";
import { RUN } from "./writers/scenario.ts";

const suite = faultSuite("full-disk");
const subject = storeSubject("stubborn");

async function write(root: string): Promise<readonly string[]> {
  const [file = "", ...args] = await subject.command(root);
  return execFileSync(file, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] })
    .split("\n")
    .filter((line) => line !== "");
}

/** What was saved can be read where nothing can be written. */
async function readBack(root: string, printed: readonly string[]): Promise<readonly string[]> {
  const saved = parsePrinted(printed).filter((line) => line.kind === "saved");
  if (saved.length === 0) return [];
  const store = await openStore(storeIn(root));
  try {
    for (const { sequence, digest } of saved) {
      const checkpoint = await store.getCheckpoint({ run: RUN, sequence });
      if (checkpoint.digest !== digest) return [`CHANGED: ${sequence}`];
    }
    return await verifyStore(store);
  } finally {
    await store.close();
  }
}

async function withMount<T>(size: string, work: (mounted: Mounted) => Promise<T>): Promise<T> {
  const mounted = mountSmall(size);
  try {
    return await work(mounted);
  } finally {
    mounted.unmount();
  }
}

describe("a file system that is really full, or read-only", () => {
  test("full: refused with DISK_FULL, readable meanwhile, and resumed with more room", async (context) => {
    suite.skipIf(whyNoMount(), context);
    // From too small for a store up to room for all but the last save.
    const sizes = Array.from({ length: 60 }, (_, i) => 16 + i * 20);
    const chosen = sample(suite.chance("sizes"), sizes, 8);
    const bad: Bad[] = [];
    for (const size of chosen) {
      await withMount(`${size}k`, async (mounted) => {
        const root = mounted.path;
        const printed = await write(root);
        const problems = parsePrinted(printed).flatMap((line) =>
          line.kind === "refused" && line.code !== "DISK_FULL"
            ? [`REFUSED: reported as ${line.code}: ${line.what}`]
            : [],
        );
        problems.push(
          ...(await judgeSafely(async () => readBack(root, printed), { root, printed })).map(
            (problem) => `while full: ${problem}`,
          ),
        );
        mounted.remount("size=64m");
        problems.push(...(await judgeSafely(subject.judge([]), { root, printed })));
        if (problems.length > 0) bad.push({ where: `a disk of ${size} KB`, problems });
      });
    }
    suite.check({ cases: chosen.length, states: chosen.length * 2, bad });
  });

  test("full while a collected worktree is restored: half of it is never saved as the newest checkpoint", async (context) => {
    suite.skipIf(whyNoMount(), context);
    const command = await buildCommand();
    await withMount("64m", async ({ path }) => {
      const [cwd, filler] = [join(path, "shop"), join(path, "filler")];
      await mkdir(cwd);
      for (const args of [
        ["init", "-q", "-b", "main"],
        ["-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-q", "--allow-empty", "-m", "first"],
      ])
        execFileSync("git", args, { cwd });
      const holdfast = (...args: readonly string[]) => command.run(args, { cwd });
      const work = ["run", "--task", "Add a line", "--no-review", "-a", "command:echo x >> a.txt"];
      expect((await holdfast(...work)).status).toBe(0);
      const [{ id }] = JSON.parse((await holdfast("list", "--json")).stdout).runs;
      const large = join(`${cwd}-worktrees`, id, "large");
      const content = Buffer.alloc(8 << 20, "a line that is longer than its compressed form\n");
      await writeFile(large, content);
      expect((await holdfast("gc", id, "--yes")).stdout).toContain("Its files are in");
      const { bavail, bsize } = await statfs(path);
      await writeFile(filler, Buffer.alloc(bavail * bsize - (4 << 20)));
      const full = await holdfast("restore", `${id}@latest`, "--yes");
      expect([full.status, full.stderr]).toEqual([1, expect.stringContaining("[DISK_FULL]")]);
      await rm(filler);
      expect((await holdfast("gc", id, "--yes")).stdout).toMatch(
        /Kept the worktree .*: the restore of .* did not finish/,
      );
      expect((await holdfast("restore", `${id}@latest`, "--yes")).status).toBe(0);
      expect((await readFile(large)).equals(content)).toBe(true);
    });
    await command.remove();
  });

  test("read-only: everything can be read, a write is refused with STORE_READ_ONLY, and resumed when it is writable again", async (context) => {
    suite.skipIf(whyNoMount(), context);
    const bad: Bad[] = [];
    // Closed, and killed so that its newest saves are in the log only.
    for (const how of ["closed", "killed"] as const) {
      await withMount("64m", async (mounted) => {
        const root = mounted.path;
        const printed = how === "closed" ? await write(root) : await writeAndDie(root);
        mounted.remount("ro");
        const problems = [...(await judgeSafely(async () => readBack(root, printed), { root, printed }))];
        const store = await openStore(storeIn(root));
        const codes = await Promise.all([
          refusal(store.takeLease({ run: RUN, label: "none" })),
          refusal(store.createRun({ id: "new", workflow: "none", work: { kind: "none" } })),
        ]);
        await store.close();
        if (codes.some((code) => code !== "STORE_READ_ONLY")) problems.push(`REFUSED: reported as ${codes.join(", ")}`);
        mounted.remount("rw");
        problems.push(...(await judgeSafely(subject.judge([]), { root, printed })));
        if (problems.length > 0) bad.push({ where: `a ${how} store on a read-only disk`, problems });
      });
    }
    suite.check({ cases: 2, states: 4, bad });
  });
});

async function writeAndDie(root: string): Promise<readonly string[]> {
  const [file = "", ...args] = await writerCommand("store-writer", storeIn(root), "die");
  try {
    execFileSync(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    if (error instanceof Error && "signal" in error && error.signal === "SIGKILL" && "stdout" in error)
      return String(error.stdout)
        .split("\n")
        .filter((line) => line !== "");
    throw error;
  }
  throw new Error("the writer did not die");
}

async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "no refusal",
    (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
  );
}
