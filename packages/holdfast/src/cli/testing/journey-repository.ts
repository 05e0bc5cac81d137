import { execFile } from "node:child_process";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { buildCommand } from "./built-command.ts";
import type { BuiltCommand, Finished, RunOptions } from "./built-command.ts";

/** For tests: the real command in a real repository, a fresh one for every test. */
export interface Journey {
  readonly holdfast: BuiltCommand;
  /** Of the test that runs. */
  readonly repository: () => string;
  begin(): Promise<void>;
  git(...args: string[]): Promise<unknown>;
  write(path: string, text: string): Promise<void>;
  read(path: string): Promise<string>;
  run(...args: string[]): Promise<Finished>;
  runIn(directory: string, args: readonly string[], options?: Omit<RunOptions, "cwd">): Promise<Finished>;
  /** Runs with --json, expects status 0 and silence on stderr, gives the document. */
  json(...args: string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** Expects this status and an empty stdout, gives stderr. */
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
