import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { processIdentity } from "@holdfast/platform/identity";
import {
  type GitOperation,
  abandonGitOperation,
  beginGitOperation,
  endGitOperation,
  readGitOperations,
} from "./stale-files.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "holdfast-note-"));
});
afterEach(() => rmSync(home, { recursive: true }));

const making = (run: string, path = `/w/${run}`): GitOperation => ({
  kind: "making",
  run,
  path,
  branch: `holdfast/${run}`,
});

test("a note exists while its work runs, and describes it", async () => {
  const { own, left } = await beginGitOperation(home, making("r"));
  expect(left).toEqual([]);
  expect(await readGitOperations(home)).toMatchObject([{ work: making("r"), mark: own.mark, abandoned: false }]);
  await endGitOperation(own);
  expect(readdirSync(home)).toEqual([]);
});

test("no process starts the same work, or work at the same path, in parallel; other work continues", async () => {
  await beginGitOperation(home, making("r"));
  await beginGitOperation(home, making("other"));
  await beginGitOperation(home, { kind: "unpinning", refs: [] });
  for (const work of [making("r", "/elsewhere"), making("third", "/w/r"), { kind: "unpinning", refs: ["x"] } as const])
    await expect(beginGitOperation(home, work)).rejects.toMatchObject({ code: "WORKSPACE_BUSY", retry: "later" });
  expect(await readGitOperations(home)).toHaveLength(3);
});

test("abandoned work is handed to the next process", async () => {
  const first = await beginGitOperation(home, making("r"));
  abandonGitOperation(first.own);
  const second = await beginGitOperation(home, making("r"));
  expect(second.left.map(({ mark }) => mark)).toEqual([first.own.mark]);
});

test("a note from another host is trusted for an hour", async () => {
  const file = join(home, `work-${"a".repeat(32)}`);
  writeFileSync(
    file,
    JSON.stringify({ work: making("r"), owner: { ...processIdentity(), host: "elsewhere", boot: "other" } }),
  );
  expect(await readGitOperations(home)).toMatchObject([{ abandoned: false }]);
  utimesSync(file, 0, 0);
  expect(await readGitOperations(home)).toMatchObject([{ abandoned: true }]);
});

test.each(["", "{", "null", '{"work":{"kind":"making"},"owner":{}}'])("%j is not a valid note", async (text) => {
  writeFileSync(join(home, `work-${"a".repeat(32)}`), text);
  expect(await readGitOperations(home)).toEqual([]);
});
