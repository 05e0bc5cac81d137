/**
 * What the command line costs besides the work itself, measured on the packed tarball and from outside:
 *
 *   - the child processes that one `impl` run starts, whose agent appends one line (counted with strace);
 *   - the time of `list`, `status` and `show` beyond `node -e 0`, with 200 runs in the store.
 *
 *   node bench/overhead.mjs [rounds]
 */
import "./supported-node.mjs";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { print, printLoad, printTarget, quantile, spread } from "./report.mjs";

const rounds = Number(process.argv[2] ?? 25);
const RUNS = 200;
const AGENT = "echo more >> README.md";
const root = join(import.meta.dirname, "..");
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
const env = {
  PATH: process.env["PATH"],
  HOME: directory,
  LANG: "C.UTF-8",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: join(directory, "gitconfig"),
};
try {
  writeFileSync(env.GIT_CONFIG_GLOBAL, "[user]\n\tname = Bench\n\temail = bench@localhost\n");
  printLoad();
  const installed = installTarball();
  const program = join(installed, "bin/holdfast.cjs");
  const repository = makeRepository();
  printTarget({
    what: "child processes of one impl run",
    value: countProcesses(program, repository),
    unit: "",
    atMost: 60,
  });
  await makeRuns(installed, repository);
  measureReads(program, repository);
  printLoad();
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/** Packs the package and unpacks it as npm does; the dependencies are those of this repository. */
function installTarball() {
  const source = join(root, "packages/holdfast");
  execFileSync("npm", ["pack", "--silent", "--pack-destination", directory], { cwd: source, stdio: "pipe" });
  const tarball = readdirSync(directory).find((name) => name.endsWith(".tgz"));
  const modules = join(directory, "node_modules");
  const installed = join(modules, "holdfast");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(directory, tarball), "-C", installed, "--strip-components=1"]);
  const { dependencies } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies))
    symlinkSync(join(root, "node_modules", name), join(modules, basename(name)));
  return installed;
}

/** A bare remote with one issue, and a clone of it with one commit. */
function makeRepository() {
  const [remote, clone] = [join(directory, "remote.git"), join(directory, "clone")];
  const git = (...args) => execFileSync("git", args, { env, stdio: "pipe" });
  git("init", "-q", "--bare", "-b", "main", remote);
  git("clone", "-q", remote, clone);
  writeFileSync(join(clone, "README.md"), "# Bench\n");
  git("-C", clone, "add", ".");
  git("-C", clone, "commit", "-q", "-m", "Begin");
  git("-C", clone, "push", "-q", "origin", "HEAD:main");
  mkdirSync(join(remote, "holdfast-forge/issues"), { recursive: true });
  writeFileSync(join(remote, "holdfast-forge/issues/1.md"), "Add a line\n");
  return clone;
}

/** Only processes that Holdfast starts itself: neither the children of git, nor the agent and its children. */
function countProcesses(program, repository) {
  const trace = join(directory, "trace");
  const strace = [
    "-f",
    "-qq",
    "-v",
    "-s",
    "300",
    "-e",
    "trace=execve,clone,clone3,vfork,fork",
    "-e",
    "signal=none",
    "-o",
    trace,
  ];
  const run = [process.execPath, program, "run", "1", "--agent", `command:${AGENT}`, "--no-review"];
  const done = spawnSync("strace", [...strace, ...run], { cwd: repository, env, encoding: "utf8" });
  if (done.error !== undefined || done.status !== 0)
    throw new Error(`strace ${run.join(" ")} failed: ${done.error?.message ?? done.stderr}`);
  const lines = readFileSync(trace, "utf8").split("\n");
  const own = lines[0].split(/\s/)[0];
  const threads = new Set([own]);
  const children = new Map();
  for (const line of lines) {
    const [, parent, call, made] = /^(\d+)\s+(?:<\.\.\. )?(clone3?|vfork|fork)\b.*= (\d+)$/.exec(line) ?? [];
    if (made === undefined || !threads.has(parent)) continue;
    if (call.startsWith("clone") && line.includes("CLONE_THREAD")) threads.add(made);
    else children.set(made, "");
  }
  for (const line of lines) {
    // A call that strace shows in two parts has its arguments in the first.
    const [, pid] = /^(\d+)\s+execve\(.*(?:= 0| <unfinished \.\.\.>)$/.exec(line) ?? [];
    if (children.has(pid)) children.set(pid, line);
  }
  const ours = [...children.values()].filter((line) => line !== "" && !line.includes(AGENT));
  const names = Map.groupBy(ours, nameOf);
  for (const [name, calls] of [...names].toSorted(([, a], [, b]) => b.length - a.length))
    print(`${String(calls.length).padStart(5)}  ${name}`);
  return ours.length;
}

/** "git update-ref", or the program. */
function nameOf(line) {
  const [, listed = ""] = /execve\("(?:[^"\\]|\\.)*", \[(.*?)\], \[/.exec(line) ?? [];
  const [program = "", ...args] = [...listed.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text);
  const plain = args.filter((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c");
  return program === "git" ? `git ${plain[0] ?? args[0]}` : basename(program);
}

/** Through the library, and from a directory without a repository: 200 runs of the command line would take minutes. */
async function makeRuns(installed, repository) {
  const { open } = await import(pathToFileURL(join(installed, "dist/index.js")).href);
  const holdfast = await open({ cwd: directory, store: join(repository, ".git/holdfast") });
  for (let at = 1; at < RUNS; at += 1) {
    const run = await holdfast.createRun({ id: `run-${at}` });
    for (let round = 1; round <= 3; round += 1) await run.save({ values: { round, note: "x".repeat(1000) } });
  }
  await holdfast.close();
}

function measureReads(program, repository) {
  const commands = {
    "node -e 0": ["-e", "0"],
    list: [program, "list"],
    status: [program, "status", "issue-1"],
    show: [program, "show", "issue-1@1"],
  };
  const samples = Object.fromEntries(Object.keys(commands).map((name) => [name, []]));
  // The first round fills the compile cache.
  for (let round = 0; round <= rounds; round += 1)
    for (const [name, args] of Object.entries(commands)) {
      const began = performance.now();
      const { status, stderr } = spawnSync(process.execPath, args, { cwd: repository, env, encoding: "utf8" });
      if (status !== 0) throw new Error(`${name} failed: ${stderr}`);
      if (round > 0) samples[name].push(performance.now() - began);
    }
  print(`\nWith ${RUNS} runs, milliseconds, median (10th to 90th percentile):`);
  for (const [name, values] of Object.entries(samples)) print(`${name.padEnd(12)} ${spread(values)}`);
  const bare = quantile(samples["node -e 0"], 0.5);
  for (const name of ["list", "status", "show"])
    printTarget({
      what: `${name} with ${RUNS} runs, beyond \`node -e 0\``,
      value: quantile(samples[name], 0.5) - bare,
      unit: "ms",
      atMost: 120,
    });
}
