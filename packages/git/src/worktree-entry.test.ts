import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readEntries } from "./worktree-entry.ts";

let commonDir: string;
beforeEach(() => {
  commonDir = mkdtempSync(join(tmpdir(), "holdfast-entry-"));
});
afterEach(() => rmSync(commonDir, { recursive: true }));

const ENTRY = {
  gitdir: "/w/r/.git\n",
  commondir: "../..\n",
  HEAD: "ref: refs/heads/holdfast/r\n",
  "holdfast-run": "r\n",
};

function write(files: Readonly<Record<string, string>>): void {
  const gitDir = join(commonDir, "worktrees", "r");
  mkdirSync(gitDir, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(gitDir, name), text);
}

test("an entry has its folder and its run", async () => {
  expect(await readEntries({ commonDir })).toEqual([]);
  write(ENTRY);
  expect(await readEntries({ commonDir })).toMatchObject([
    { name: "r", folder: "/w/r", run: "r", whole: true, making: false, used: false, initializing: false },
  ]);
  write({ HEAD: `${"a".repeat(40)}\n`, index: "", locked: "initializing\n", "holdfast-making": "" });
  expect(await readEntries({ commonDir })).toMatchObject([
    { whole: true, making: true, used: true, initializing: true },
  ]);
});

test("an entry that is torn, or without its branch yet, is not complete", async () => {
  const names = ["gitdir", "commondir", "HEAD"] as const;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), fc.nat(30), fc.nat(3), async (name, kept, zeros) => {
      const text = ENTRY[name].slice(0, Math.min(kept, ENTRY[name].length - 1));
      write({ ...ENTRY, [name]: text + "\0".repeat(zeros) });
      expect(await readEntries({ commonDir })).toMatchObject([{ whole: false }]);
    }),
  );
  write({ ...ENTRY, HEAD: `${"0".repeat(40)}\n`, "holdfast-run": "r" });
  expect(await readEntries({ commonDir })).toMatchObject([{ whole: false, run: null }]);
});
