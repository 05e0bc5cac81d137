// The built CLI for tests: bundles the current sources and runs the real entry point in a clean environment.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { cp, mkdtemp, readFile, readdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The real entry point over a bundle of the current sources, in its own package directory. */
export interface BuiltCommand {
  readonly entry: string;
  readonly directory: string;
  run(args: readonly string[], options?: RunOptions): Promise<Finished>;
  start(args: readonly string[], options?: RunOptions): ChildProcess;
  remove(): Promise<void>;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Arguments for Node itself. */
  readonly node?: readonly string[];
}

export interface Finished {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const repository = fileURLToPath(new URL("../../../", import.meta.url));

export async function buildCommand(): Promise<BuiltCommand> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-cli-")));
  const source = join(repository, "packages/holdfast");
  await Promise.all([
    bundleInto(join(directory, "dist")),
    cp(join(source, "bin"), join(directory, "bin"), { recursive: true }),
    cp(join(source, "schemas"), join(directory, "schemas"), { recursive: true }),
    cp(join(source, "package.json"), join(directory, "package.json")),
    symlink(join(repository, "node_modules"), join(directory, "node_modules")),
  ]);
  return commandIn(directory);
}

/** Another version of the command: its files with one text in place of another. Throws unless it is in as many files as expected. */
export async function changedCommand(
  command: BuiltCommand,
  change: { readonly from: string; readonly to: string; readonly files: number },
): Promise<BuiltCommand> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-cli-")));
  await cp(command.directory, directory, { recursive: true, filter: (path) => !/\/work-\d+$/.test(path) });
  const chunks = join(directory, "dist/cli");
  let changed = 0;
  for (const name of (await readdir(chunks)).filter((one) => one.endsWith(".cjs"))) {
    const code = await readFile(join(chunks, name), "utf8");
    if (!code.includes(change.from)) continue;
    changed += 1;
    await writeFile(join(chunks, name), code.replaceAll(change.from, change.to));
  }
  if (changed !== change.files) throw new Error(`${change.from} is in ${changed} files of the build`);
  return commandIn(directory);
}

function commandIn(directory: string): BuiltCommand {
  const entry = join(directory, "bin/holdfast.cjs");
  const start: BuiltCommand["start"] = (args, options = {}) =>
    spawn(process.execPath, [...(options.node ?? []), entry, ...args], {
      cwd: options.cwd ?? directory,
      env: { ...plainEnvironment(directory), ...options.env },
      stdio: "pipe",
    });
  return {
    entry,
    directory,
    start,
    run: (args, options = {}) => finish(start(args, options), options.input ?? ""),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** `npm test` has built the current sources just before. */
async function bundleInto(dist: string): Promise<void> {
  const built = process.env["HOLDFAST_TEST_DIST"];
  if (built !== undefined) return await cp(join(built, "cli"), join(dist, "cli"), { recursive: true });
  await promisify(execFile)(process.execPath, [join(repository, "scripts/build.mjs"), "--cli-only", "--out", dist]);
}

/** Contains none of the machine's own settings: no forced colours, no store, no user's git config. */
function plainEnvironment(directory: string): Record<string, string> {
  return {
    PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
    HOME: directory,
    TZ: "UTC",
    LANG: "C.UTF-8",
    COLUMNS: "80",
    // Tests write the settings of their repositories themselves. Tests of the consent unset it; the record is below HOME.
    HOLDFAST_TRUST: "1",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "A",
    GIT_AUTHOR_EMAIL: "a@example.com",
    GIT_COMMITTER_NAME: "A",
    GIT_COMMITTER_EMAIL: "a@example.com",
  };
}

function finish(child: ChildProcess, input: string): Promise<Finished> {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.on("error", reject);
    child.on("close", (status) => resolve({ status, stdout, stderr }));
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}
