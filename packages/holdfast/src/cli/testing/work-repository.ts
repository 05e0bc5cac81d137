import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { openHoldfast } from "../../app.ts";
import { buildCommand } from "./built-command.ts";
import type { BuiltCommand, Finished } from "./built-command.ts";
import { gitIn } from "../commands/demo/demo-repository.ts";

/** For tests: the real command in a clone of a bare remote with issue 1, and an agent that follows a script. */
export interface WorkPlace {
  readonly holdfast: BuiltCommand;
  readonly clone: string;
  readonly remote: string;
  readonly git: (...args: readonly string[]) => Promise<string>;
  run(...args: readonly string[]): Promise<Finished>;
  /** Runs with --json, gives the one document. */
  json(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** Writes a script; gives the flag's value. */
  agent(answers: readonly object[]): Promise<string>;
  start(...args: readonly string[]): Started;
}

export interface Started {
  readonly child: ChildProcess;
  /** Resolves when stdout holds this. */
  says(text: string): Promise<void>;
  readonly ended: Promise<Finished>;
}

/** An implementation that is complete at once, and a change that shows. */
export const GOOD = {
  when: { role: "impl" },
  edits: [{ do: "write", path: "answer.txt", text: "42\n" }],
  finalize: { title: "[feat][#1] Answer", body: "The answer." },
  reply: "done",
  usage: { input: 800, output: 200, microUsd: 5000 },
};

/** For the tests of one file: the command is built before them and gone after them, and each begins a place of its own. */
export function workSuite(): { begin(): Promise<WorkPlace> } {
  let built: BuiltCommand | undefined;
  const places: WorkPlace[] = [];
  let count = 0;
  beforeAll(async () => {
    built = await buildCommand();
  }, BUILD_MS);
  afterAll(async () => {
    for (const { clone } of places) await endLeftovers(clone);
    await built?.remove();
  }, BUILD_MS);
  return {
    async begin() {
      if (built === undefined) throw new Error("a place is begun in a test, or in a hook before it");
      count += 1;
      const place = await makePlace(built, join(built.directory, `work-${count}`));
      places.push(place);
      return place;
    },
  };
}

/** On whatever else the machine has to do. */
const BUILD_MS = 60_000;

/** What was killed without a word leaves its agent behind, which waits for ever where nobody resumes the run. */
async function endLeftovers(clone: string): Promise<void> {
  if (!existsSync(join(clone, ".git/holdfast"))) return;
  await using holdfast = await openHoldfast({ cwd: clone });
  for (const { id } of await holdfast.listRuns()) await holdfast.work.endProcesses(id);
}

async function makePlace(holdfast: BuiltCommand, directory: string): Promise<WorkPlace> {
  const [clone, remote] = [join(directory, "shop"), join(directory, "shop.git")];
  const env = { PATH: process.env["PATH"] ?? "", HOME: holdfast.directory, GIT_CONFIG_NOSYSTEM: "1" };
  await mkdir(clone, { recursive: true });
  const git = gitIn(clone, env);
  await git("init", "-q", "--bare", "-b", "main", remote);
  await git("init", "-q", "-b", "main");
  await writeFile(join(clone, "README.md"), "# Shop\n");
  await git("config", "user.name", "A");
  await git("config", "user.email", "a@example.com");
  await git("add", ".");
  await git("commit", "-qm", "first");
  await git("remote", "add", "origin", remote);
  await git("push", "-q", "-u", "origin", "main");
  await using holdfastHere = await openHoldfast({ cwd: clone, pretend: true });
  const { forge } = await holdfastHere.work.parts();
  await forge?.createIssue({ title: "Answer", body: "What is it?\n", labels: [], key: "test" });
  const run = (...args: readonly string[]) => holdfast.run(args, { cwd: clone });
  return {
    holdfast,
    clone,
    remote,
    git,
    run,
    async json(...args) {
      const finished = await run("--json", ...args);
      expect(finished.stderr, args.join(" ")).toBe("");
      return JSON.parse(finished.stdout);
    },
    async agent(answers) {
      const path = join(directory, "agent.json");
      await writeFile(path, JSON.stringify({ answers }));
      return `scripted:${path}`;
    },
    start: (...args) => watch(holdfast.start(args, { cwd: clone })),
  };
}

function watch(child: ChildProcess): Started {
  let [stdout, stderr] = ["", ""];
  const waiting = new Set<() => void>();
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    for (const look of waiting) look();
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<Finished>((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  return {
    child,
    ended,
    says: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!stdout.includes(text)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
        void ended.then(() => reject(new Error(`ended without saying ${text}:\n${stdout}\n${stderr}`)));
      }),
  };
}
