import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createAgentLogFiles } from "./agent-log.ts";

const call = { run: "issue-4-abc", stageAttempt: 3, step: "implement" };

test("lines are in the file immediately, a second call appends, and only the owner can read", async () => {
  const directory = join(scratchDirectory(onTestFinished), "logs");
  const logs = createAgentLogFiles(directory);
  const path = join(directory, "issue-4-abc", "3-implement.log");
  const first = logs.open(call);
  expect(await logs.list(call.run)).toEqual([]);
  first.append("one");
  expect(readFileSync(path, "utf8")).toBe("one\n");
  await first.close();
  first.append("after the end");
  const second = logs.open(call);
  second.append("two\nlines");
  await second.close();
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const [listed, ...rest] = await logs.list(call.run);
  expect(listed).toMatchObject({ path, stageAttempt: 3, step: "implement", bytes: 15 });
  expect(rest).toEqual([]);
  if (listed === undefined) return;
  expect(await logs.read(listed, 0)).toEqual({ lines: ["one", "two\\nlines"], next: 15 });
  writeFileSync(path, "three\nincomplete", { flag: "a" });
  expect(await logs.read(listed, 15)).toEqual({ lines: ["three"], next: 21 });
});

test("a step's name cannot leave the folder of its run, and two names never share a file", async () => {
  const directory = scratchDirectory(onTestFinished);
  const logs = createAgentLogFiles(directory);
  const names = ["../../up", "a/b", "a%2fb", "é", "x".repeat(300), `${"x".repeat(300)}y`, "a b"];
  for (const step of names) logs.open({ ...call, step }).append(step);
  expect(readdirSync(directory)).toEqual([call.run]);
  const files = readdirSync(join(directory, call.run));
  expect(files).toHaveLength(names.length);
  for (const file of files) expect(file).toMatch(/^3-[A-Za-z0-9_.%~-]{1,120}\.log$/);
  const short = names.filter((name) => name.length < 100);
  expect((await logs.list(call.run)).map(({ step }) => step)).toEqual(expect.arrayContaining(short));
});

test("a link at the path of the log is not followed", async () => {
  const directory = scratchDirectory(onTestFinished);
  mkdirSync(join(directory, call.run));
  writeFileSync(join(directory, "theirs"), "");
  symlinkSync(join(directory, "theirs"), join(directory, call.run, "3-implement.log"));
  const log = createAgentLogFiles(directory).open(call);
  log.append("x");
  await log.close();
  expect(readFileSync(join(directory, "theirs"), "utf8")).toBe("");
});

test("a full log is reported once, and an unwritable directory fails nothing", async () => {
  const directory = scratchDirectory(onTestFinished);
  const log = createAgentLogFiles(directory, 12).open(call);
  for (const line of ["12345", "67890", "more"]) log.append(line);
  await log.close();
  const path = join(directory, call.run, "3-implement.log");
  expect(readFileSync(path, "utf8")).toMatch(/^12345\n… the log of this call is full.*\n$/);

  writeFileSync(join(directory, "file"), "");
  const nowhere = createAgentLogFiles(join(directory, "file")).open(call);
  nowhere.append("x");
  await nowhere.close();
});

test("a result is stored completely, for its owner only, until it is removed; it is not listed as a log", async () => {
  const directory = join(scratchDirectory(onTestFinished), "logs");
  const logs = createAgentLogFiles(directory);
  const file = logs.result(call);
  expect(file.read()).toBeNull();
  file.write("one");
  file.write("two");
  expect(logs.result(call).read()).toBe("two");
  expect(statSync(join(directory, call.run, "3-implement.answer")).mode & 0o777).toBe(0o600);
  expect(await logs.list(call.run)).toEqual([]);
  file.remove();
  file.remove();
  expect(file.read()).toBeNull();
});

test("each background process has an output file of its own, listed before the agents' logs", async () => {
  const directory = scratchDirectory(onTestFinished);
  const logs = createAgentLogFiles(directory);
  logs.open(call).append("x");
  const paths = [logs.openConsole(call.run).path, logs.openConsole(call.run).path];
  expect(new Set(paths).size).toBe(2);
  const steps = (await logs.list(call.run)).map(({ step }) => step);
  expect(steps.toSorted()).toEqual(["console", "console-2", "implement"]);
  expect(steps.at(-1)).toBe("implement");
});

test("only files are logs: a link shows no other file, and a pipe does not hang its reader", async () => {
  const directory = scratchDirectory(onTestFinished);
  const logs = createAgentLogFiles(directory);
  logs.open(call).append("x");
  const folder = join(directory, call.run);
  writeFileSync(join(directory, "secret"), "secret\n");
  symlinkSync(join(directory, "secret"), join(folder, "4-link.log"));
  mkdirSync(join(folder, "5-folder.log"));
  execFileSync("mkfifo", [join(folder, "6-pipe.log")]);
  expect((await logs.list(call.run)).map(({ step }) => step)).toEqual(["implement"]);
});
