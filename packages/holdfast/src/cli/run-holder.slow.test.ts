import { type ChildProcess, execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { type Server, createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type BuiltCommand, type Finished, buildCommand } from "@holdfast/test-support/built-command";
import { openHoldfast } from "../open.ts";

/** A run that is held in its planning: the forge has its request and does not answer. */
let holdfast: BuiltCommand;
let clone: string;
let env: Record<string, string>;
let forge: Server;
let asked: () => void;
let started: ChildProcess | undefined;
let count = 0;

beforeAll(async () => {
  holdfast = await buildCommand();
  // Without gh: the token is used.
  const bin = join(holdfast.directory, "only-git");
  await mkdir(bin);
  await symlink(execFileSync("which", ["git"], { encoding: "utf8" }).trim(), join(bin, "git"));
  await symlink(process.execPath, join(bin, "node"));
  await symlink("/bin/sh", join(bin, "sh"));
  forge = createServer(() => asked());
  await new Promise<void>((resolve) => forge.listen(0, "127.0.0.1", resolve));
  const address = forge.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  env = {
    PATH: bin,
    GITHUB_TOKEN: "ghp_test",
    GITHUB_SERVER_URL: "https://github.com",
    GITHUB_API_URL: `http://127.0.0.1:${address.port}`,
  };
}, 120_000);
afterAll(async () => {
  forge.closeAllConnections();
  forge.close();
  await holdfast.remove();
});

beforeEach(async () => {
  count += 1;
  clone = join(holdfast.directory, `clone-${count}`);
  await mkdir(clone);
  for (const args of [
    ["init", "-q", "-b", "main"],
    ["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"],
    ["remote", "add", "origin", "https://github.com/octo/app.git"],
  ])
    execFileSync("git", args, { cwd: clone });
  await writeFile(join(clone, "agent.json"), JSON.stringify({ answers: [] }));
});
afterEach(() => {
  started?.kill("SIGKILL");
  started = undefined;
});

test("a run with a lease is not announced any more", async () => {
  const remote = `${clone}.git`;
  execFileSync("git", ["clone", "-q", "--bare", clone, remote]);
  execFileSync("git", ["remote", "set-url", "origin", remote], { cwd: clone });
  await using opened = await openHoldfast({ cwd: clone, pretend: true });
  const { forge: local } = await opened.work.adapters();
  await local?.createIssue({ title: "Answer", body: "", labels: [], key: "test" });
  const seen = `${clone}.seen`;
  const agent = `${clone}.sh`;
  const ls = execFileSync("which", ["ls"], { encoding: "utf8" }).trim();
  await writeFile(agent, `#!/bin/sh\n${ls} ${clone}/.git/holdfast/starting > ${seen}\nexit 1\n`, { mode: 0o755 });
  started = holdfast.start(["run", "1", "--agent", `command:${agent}`], { cwd: clone });
  while (!existsSync(seen)) await sleep(50);
  expect(JSON.parse((await run("status", "--json")).stdout)).toMatchObject({
    runs: [{ status: { kind: expect.any(String) } }],
  });
  expect(await run("stop", "1")).toMatchObject({ status: 0, stdout: expect.stringMatching(/^Stopped issue-1\./) });
  expect(readFileSync(seen, "utf8")).toBe("");
  expect(announced()).toEqual([]);
}, 120_000);

/** Resolves when the run has asked the forge, with how it will end. */
async function startHeld(): Promise<{ readonly pid: number; readonly ended: Promise<Finished> }> {
  const request = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const child = holdfast.start(["run", "7", "--agent", "scripted:agent.json"], { cwd: clone, env });
  started = child;
  let [stdout, stderr] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<Finished>((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  const first = await Promise.race([request.then(() => null), ended]);
  if (first !== null) throw new Error(`it ended before it asked the forge: ${JSON.stringify(first)}`);
  return { pid: child.pid ?? 0, ended };
}

const run = (...args: readonly string[]): Promise<Finished> => holdfast.run(args, { cwd: clone, env });
const announced = (): readonly string[] => {
  const directory = join(clone, ".git/holdfast/starting");
  return existsSync(directory) ? readdirSync(directory) : [];
};

test("status shows a run that is still planned, by issue number, by id and without a name, and changes nothing", async () => {
  const { pid } = await startHeld();
  const before = announced();
  for (const words of [["status"], ["status", "7"], ["status", "#7"], ["status", "issue-7"]]) {
    const shown = await run(...words);
    expect(shown, words.join(" ")).toMatchObject({ status: 0 });
    expect(shown.stdout).toMatch(/^issue 7 {2}running: starting\n/);
    expect(shown.stdout).toContain(`Process ${pid} `);
  }
  const one = JSON.parse((await run("status", "7", "--json")).stdout);
  expect(one).toMatchObject({
    run: { id: null, work: { kind: "issue", number: 7 }, status: { kind: "running", starting: true, holder: { pid } } },
  });
  expect(JSON.parse((await run("status", "--json")).stdout)).toMatchObject({
    runs: [{ id: null, status: { kind: "running", starting: true, holder: { pid } } }],
  });
  expect(announced()).toEqual(before);
  expect((await run("status", "8")).status).not.toBe(0);
}, 120_000);

test.each([
  ["stop", ""],
  ["stop", "7"],
  ["stop", "issue-7"],
  ["stop", "7", "--now"],
  ["stop", "issue-7", "--now"],
])(
  "%s %s during the planning of a run ends it, and nothing is started",
  async (...words) => {
    const { ended } = await startHeld();
    const done = await run(...words.filter((word) => word !== ""));
    expect(done).toMatchObject({ status: 0 });
    expect(done.stdout).toBe(
      `${words.includes("--now") ? "Aborted" : "Stopped"} issue 7 before it started; nothing was changed.\n`,
    );
    expect(await ended).toMatchObject({ status: 130, stderr: "Interrupted; nothing was changed.\n" });
    expect(announced()).toEqual([]);
    expect(JSON.parse((await run("list", "--json")).stdout)).toMatchObject({ runs: [] });
    expect((await run("status")).stdout).toBe("");
  },
  120_000,
);

test("a pause and rerun during the planning of a run are reported, and do not affect it", async () => {
  const { pid } = await startHeld();
  for (const [command = "", ...flags] of [["stop", "--after-step"], ["rerun"]])
    for (const typed of ["7", "issue-7"]) {
      const refused = await run(command, typed, ...flags);
      expect([command, typed, refused.status]).toEqual([command, typed, 2]);
      expect(refused.stderr.replaceAll(/\s+/g, " ")).toContain(`Process ${pid} is still preparing issue 7`);
      expect(refused.stderr).toContain("holdfast stop 7");
    }
  expect(started?.exitCode).toBeNull();
  expect(announced()).toHaveLength(1);
}, 120_000);

test("killed during its planning, a run leaves a stale file: it is ignored, and the next run removes it", async () => {
  const { ended } = await startHeld();
  started?.kill("SIGKILL");
  await ended;
  const stale = announced();
  expect(stale).toHaveLength(1);
  expect(JSON.parse((await run("status", "--json")).stdout)).toMatchObject({ runs: [] });
  expect((await run("stop", "7")).status).not.toBe(0);
  expect(announced()).toEqual(stale);
  const next = await startHeld();
  expect(announced()).toHaveLength(1);
  expect(announced()).not.toEqual(stale);
  expect((await run("stop")).status).toBe(0);
  await next.ended;
}, 120_000);
