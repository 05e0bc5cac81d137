// Repositories for tests of the CLI: a clone with a remote and a scripted agent, or a plain repository for each test.

import { type ChildProcess, execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect } from "vitest";
import { gitIn } from "../../holdfast/src/cli/commands/demo-repository.ts";
import { openHoldfast } from "../../holdfast/src/open.ts";
import { type BuiltCommand, type Finished, type RunOptions, buildCommand } from "./built-command.ts";

/** The real command in a clone of a bare remote with issue 1, and an agent that follows a script. */
export interface WorkPlace {
  readonly holdfast: BuiltCommand;
  readonly clone: string;
  readonly remote: string;
  readonly git: (...args: readonly string[]) => Promise<string>;
  run(...args: readonly string[]): Promise<Finished>;
  /** Runs with --json and returns the document. */
  json(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** Writes a script and returns the flag's value. */
  agent(answers: readonly object[]): Promise<string>;
  start(...args: readonly string[]): Started;
}

export interface Started {
  readonly child: ChildProcess;
  /** Resolves when stdout contains this text. */
  says(text: string): Promise<void>;
  readonly ended: Promise<Finished>;
}

/** An implementation that is complete at once, with a visible change. */
export const GOOD = {
  when: { role: "impl" },
  edits: [{ do: "write", path: "answer.txt", text: "42\n" }],
  finalize: { title: "[feat][#1] Answer", body: "The answer." },
  reply: "done",
  usage: { input: 800, output: 200, microUsd: 5000 },
};

/** For the tests of one file: the command is built before them and removed after them, and each test gets its own clone. */
export function workSuite(): { begin(): Promise<WorkPlace>; command(): BuiltCommand } {
  let built: BuiltCommand | undefined;
  const places: WorkPlace[] = [];
  let count = 0;
  beforeAll(async () => {
    built = await buildCommand();
  });
  afterAll(async () => {
    for (const { clone } of places) await endLeftovers(clone);
    await built?.remove();
  });
  const command = (): BuiltCommand => {
    if (built === undefined) throw new Error("the command exists in a test, or in a hook before it");
    return built;
  };
  return {
    command,
    async begin() {
      count += 1;
      const place = await makePlace(command(), join(command().directory, `work-${count}`));
      places.push(place);
      return place;
    },
  };
}

/** A killed run leaves its agent process behind, which would wait forever if no process resumes the run. */
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
  const { forge } = await holdfastHere.work.adapters();
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

/** The real command in a real repository, a fresh one for every test. */
export interface Journey {
  readonly holdfast: BuiltCommand;
  /** Repository of the current test. */
  readonly repository: () => string;
  begin(): Promise<void>;
  git(...args: string[]): Promise<unknown>;
  write(path: string, text: string): Promise<void>;
  read(path: string): Promise<string>;
  run(...args: string[]): Promise<Finished>;
  runIn(directory: string, args: readonly string[], options?: Omit<RunOptions, "cwd">): Promise<Finished>;
  /** Runs with --json, expects status 0 and an empty stderr, and returns the document. */
  json(...args: string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** Expects this status and an empty stdout, and returns stderr. */
  fails(status: number, ...args: string[]): Promise<string>;
}

export async function startJourney(): Promise<Journey> {
  const holdfast = await buildCommand();
  const template = join(holdfast.directory, "template");
  let repository = template;
  let count = 0;
  const journey: Journey = {
    holdfast,
    repository: () => repository,
    async begin() {
      count += 1;
      repository = join(holdfast.directory, `repo-${count}`);
      await cp(template, repository, { recursive: true });
    },
    git: (...args) =>
      promisify(execFile)("git", args, {
        cwd: repository,
        env: { PATH: process.env["PATH"], HOME: holdfast.directory },
      }),
    async write(path, text) {
      await mkdir(dirname(join(repository, path)), { recursive: true });
      await writeFile(join(repository, path), text);
    },
    read: (path) => readFile(join(repository, path), "utf8"),
    run: (...args) => holdfast.run(args, { cwd: repository }),
    runIn: (directory, args, options = {}) => holdfast.run(args, { ...options, cwd: join(repository, directory) }),
    async json(...args) {
      const finished = await journey.run("--json", ...args);
      expect(finished, args.join(" ")).toMatchObject({ status: 0, stderr: "" });
      return JSON.parse(finished.stdout);
    },
    async fails(status, ...args) {
      const finished = await journey.run(...args);
      expect({ args, status: finished.status, stdout: finished.stdout }).toEqual({ args, status, stdout: "" });
      return finished.stderr;
    },
  };
  await mkdir(template);
  await journey.git("init", "-q", "-b", "main");
  await journey.write("src/a.txt", "one\n");
  await journey.write(".gitignore", "*.log\n");
  await journey.git("add", ".");
  await journey.git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "first");
  return journey;
}

/** The text of a workflow file as a user writes it, with the current sources in place of an installed package. */
export function workflowSource(text: string): string {
  return text.replace('"holdfast"', JSON.stringify(join(import.meta.dirname, "../../holdfast/src/index.ts")));
}
