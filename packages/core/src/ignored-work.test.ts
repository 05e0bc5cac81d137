import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { copyDigest } from "./copy-files.ts";
import { isReproducible, listIgnoredWork } from "./ignored-work.ts";

test("what tools, set-ups and copies write is reproducible; any other ignored path is not", () => {
  const facts = { made: ["generated"], copied: ["conf/.env"] };
  for (const path of ["node_modules/", "a/__pycache__/", "target/x.o", "generated/", "generated/a.txt", "conf/.env"])
    expect(isReproducible(path, facts), path).toBe(true);
  for (const path of [".env", "generated.txt", "conf/", "conf/.env.local", "notes/", "my-target"])
    expect(isReproducible(path, facts), path).toBe(false);
});

test("ignored directories are searched; changed copies, files that a set-up found and repositories anywhere are listed", () => {
  const root = scratchDirectory(onTestFinished);
  const write = (path: string, text: string): void => {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), text, { mode: 0o600 });
  };
  const copied = {
    "conf/.env": copyDigest(0o600, Buffer.from("A=1")),
    "conf/b.env": copyDigest(0o600, Buffer.from("B")),
  };
  // The user put `by-hand.env` there while the set-up waited, so the record has it among what the set-up made.
  const record = { facts: null, before: [], made: ["gen", "by-hand.env"], copied, reported: [] };
  write("private/set-up.json", JSON.stringify(record));
  write("conf/.env", "A=1");
  write("conf/b.env", "changed");
  write("conf/node_modules/x", "");
  write("gen/x", "");
  write("by-hand.env", "SECRET=1");
  mkdirSync(join(root, "empty"));
  for (const git of ["node_modules/a/b/.git", "gen/bare/objects", "gen/bare/refs", "gen/.build/checkouts/dep/.git"])
    mkdirSync(join(root, git), { recursive: true });
  write("gen/bare/HEAD", "");
  symlinkSync("/nowhere", join(root, "link"));
  const ignored = ["conf/", "gen/", "by-hand.env", "empty/", "link", "node_modules/"];
  const workspace = { root, privateDirectory: join(root, "private") };
  expect(listIgnoredWork(workspace, ignored)).toEqual([
    "gen/bare/",
    "by-hand.env",
    "link",
    "node_modules/a/b/",
    "conf/b.env",
  ]);
  expect(listIgnoredWork({ root, privateDirectory: join(root, "none") }, ["gen/"])).toContain("gen/x");
});
