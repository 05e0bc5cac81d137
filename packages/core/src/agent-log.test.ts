import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openAgentLog, openResultFile } from "./agent-log.ts";

const call = { run: "issue-4-abc", stageAttempt: 3, step: "implement" };

test("lines are in the file at once, a second try appends, only the owner may read", async () => {
  const directory = join(scratchDirectory(onTestFinished), "logs");
  const first = openAgentLog({ ...call, directory });
  expect(existsSync(first.path)).toBe(false);
  first.append("one");
  expect(readFileSync(first.path, "utf8")).toBe("one\n");
  await first.close();
  first.append("after the end");
  const second = openAgentLog({ ...call, directory });
  second.append("two\nlines");
  await second.close();
  expect(readFileSync(second.path, "utf8")).toBe("one\ntwo\\nlines\n");
  expect(statSync(second.path).mode & 0o777).toBe(0o600);
  expect(second.path).toBe(join(directory, "issue-4-abc", "3-implement.log"));
});

test("a step's name cannot leave the directory, and two names never share a file", () => {
  const names = ["../../up", "a/b", "a%2fb", "é", "x".repeat(300), `${"x".repeat(300)}y`, "a b"];
  const paths = names.map((step) => openAgentLog({ ...call, step, directory: "/logs" }).path);
  expect(new Set(paths).size).toBe(names.length);
  for (const path of paths) {
    expect(dirname(path)).toBe("/logs/issue-4-abc");
    expect(basename(path)).toMatch(/^3-[A-Za-z0-9_.%~-]{1,120}\.log$/);
  }
});

test("a link in the log's place is not followed", async () => {
  const directory = scratchDirectory(onTestFinished);
  const log = openAgentLog({ ...call, directory });
  mkdirSync(dirname(log.path));
  writeFileSync(join(directory, "theirs"), "");
  symlinkSync(join(directory, "theirs"), log.path);
  log.append("x");
  await log.close();
  expect(readFileSync(join(directory, "theirs"), "utf8")).toBe("");
});

test("a full log says so once; a place that cannot be written disturbs nobody", async () => {
  const directory = scratchDirectory(onTestFinished);
  const log = openAgentLog({ ...call, directory, maxBytes: 12 });
  for (const line of ["12345", "67890", "more"]) log.append(line);
  await log.close();
  expect(readFileSync(log.path, "utf8")).toMatch(/^12345\n… the log of this call is full.*\n$/);

  writeFileSync(join(directory, "file"), "");
  const nowhere = openAgentLog({ ...call, directory: join(directory, "file") });
  nowhere.append("x");
  await nowhere.close();
});

test("an answer is kept whole, for its owner alone, until it is removed", () => {
  const directory = join(scratchDirectory(onTestFinished), "logs");
  const file = openResultFile({ ...call, directory });
  expect(file.read()).toBeNull();
  file.write("one");
  file.write("two");
  expect(openResultFile({ ...call, directory }).read()).toBe("two");
  expect(statSync(join(directory, call.run, "3-implement.answer")).mode & 0o777).toBe(0o600);
  file.remove();
  file.remove();
  expect(file.read()).toBeNull();
});
