import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { startRepository } from "@holdfast/test-support/git/repository";
import { type Placement, fileSignatures, placeFiles } from "./place-files.ts";

let root: string;
let outside: string;
beforeEach(() => {
  const repo = startRepository();
  root = repo.root;
  outside = join(root, "..", "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "theirs");
  writeFileSync(join(outside, "staged"), "new");
});

const place = (path: string): Placement => ({ kind: "place", path, staged: join(outside, "staged") });

test.each(["place", "remove", "mode"] as const)("%s: a folder that became a link is never followed", (kind) => {
  symlinkSync(outside, join(root, "dir"));
  const path = "dir/file";
  const placements: Record<typeof kind, Placement> = {
    place: place(path),
    remove: { kind: "remove", path },
    mode: { kind: "mode", path, permissions: 0o777 },
  };
  const seen = fileSignatures(root, [path]);
  expect(() => placeFiles(root, [placements[kind]], seen)).toThrow(
    expect.objectContaining({ code: "RESTORE_REFUSED" }),
  );
  expect(readFileSync(join(outside, "file"), "utf8")).toBe("theirs");
});

test("a file that changed in the last moment is not overwritten, and finished work is reported", () => {
  writeFileSync(join(root, "first"), "old");
  writeFileSync(join(root, "second"), "old");
  const seen = fileSignatures(root, ["first", "second"]);
  writeFileSync(join(root, "second"), "edited meanwhile");
  const placements: Placement[] = [{ kind: "remove", path: "first" }, place("second")];
  expect(() => placeFiles(root, placements, seen)).toThrow(
    expect.objectContaining({ code: "RESTORE_REFUSED", data: { path: "second", done: 1, total: 2 } }),
  );
  expect(existsSync(join(root, "first"))).toBe(false);
  expect(readFileSync(join(root, "second"), "utf8")).toBe("edited meanwhile");
});

test("a file that appeared in the last moment is not overwritten", () => {
  writeFileSync(join(root, "new"), "another process was faster");
  expect(() => placeFiles(root, [place("new")], new Map([["new", ""]]))).toThrow(/changed while the restore/);
  expect(readFileSync(join(root, "new"), "utf8")).toBe("another process was faster");
});
