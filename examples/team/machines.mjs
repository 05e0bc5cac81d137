// What the demo of a team works on, all below one temporary directory: a private PostgreSQL server, a git remote with issues, and workers with
// a home and a clone each.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The built command of this checkout. */
export const ENTRY = fileURLToPath(new URL("../../packages/holdfast/bin/holdfast.cjs", import.meta.url));
const SERVERS = "/usr/lib/postgresql";

/** Shorter than the 30 seconds after which a worker counts as dead, so that the demo is short. */
export const DEAD_SECONDS = 5;
const TIMINGS = { lookMs: 200, heartbeatMs: 500, deadMs: DEAD_SECONDS * 1000, tidyMs: 1000, reconcileMs: 2000 };

const run = promisify(execFile);

/** The directory of PostgreSQL's programs; null if it is not installed. */
export function findPostgres() {
  const versions = existsSync(SERVERS) ? readdirSync(SERVERS).toSorted((a, b) => Number(b) - Number(a)) : [];
  return (
    versions.map((version) => join(SERVERS, version, "bin")).find((bin) => existsSync(join(bin, "initdb"))) ?? null
  );
}

/** Starts a server on a free port of loopback. Only who knows the password of this demo can connect. */
export async function startPostgres(bin, directory) {
  const [data, passwords] = [join(directory, "data"), join(directory, "password")];
  const password = crypto.randomUUID();
  const account = process.getuid() === 0 ? await postgresAccount() : {};
  mkdirSync(directory);
  writeFileSync(passwords, password, { mode: 0o600 });
  // PostgreSQL refuses to run as root, and its own user must reach its directory.
  if (account.uid !== undefined) {
    chmodSync(dirname(directory), 0o711);
    for (const path of [directory, passwords]) chownSync(path, account.uid, account.gid);
  }
  const options = { cwd: "/", ...account };
  const settings = ["-A", "scram-sha-256", "--pwfile", passwords, "-E", "UTF8", "--locale=C", "--no-instructions"];
  await run(join(bin, "initdb"), ["-D", data, "-U", "holdfast", ...settings], options);
  const port = await freePort();
  const places = [
    "-c",
    "listen_addresses=127.0.0.1",
    "-c",
    `port=${port}`,
    "-c",
    `unix_socket_directories=${directory}`,
  ];
  const server = spawn(join(bin, "postgres"), ["-D", data, ...places], { ...options, stdio: "ignore", detached: true });
  const env = { PGPASSWORD: password };
  const address = ["-h", "127.0.0.1", "-p", String(port), "-U", "holdfast", "-d", "postgres"];
  const sql = async (text) => {
    const { stdout } = await run(join(bin, "psql"), [...address, "-AtqX", "-c", text], {
      env: { ...process.env, ...env },
    });
    return stdout.trim();
  };
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill("SIGQUIT");
    await once(server, "exit");
  };
  for (;;) {
    const ready = await sql("SELECT 1").catch(() => null);
    if (ready === "1") break;
    if (server.exitCode !== null) throw new Error(`PostgreSQL ended with ${server.exitCode}`);
    await pause(100);
  }
  return { url: `postgres://holdfast@127.0.0.1:${port}/postgres`, env, sql, stop };
}

async function postgresAccount() {
  const [uid, gid] = await Promise.all(["-u", "-g"].map((flag) => run("id", [flag, "postgres"])));
  return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** A bare repository with a local forge and its issues. Returns what a machine needs: `issues` are `{ number, title, path, text }`. */
export async function makeRemote(directory, issues) {
  const [remote, first] = [join(directory, "shop.git"), join(directory, "first")];
  const env = plainEnvironment(directory);
  await run("git", ["init", "-q", "--bare", "-b", "main", remote], { env });
  await run("git", ["clone", "-q", remote, first], { env });
  writeFileSync(join(first, "README.md"), "# Shop\n");
  writeFileSync(join(first, "holdfast.config.yaml"), "files: { remote: origin }\n");
  for (const args of [
    ["add", "."],
    ["commit", "-qm", "A shop"],
    ["push", "-q", "origin", "HEAD:main"],
  ])
    await run("git", args, { cwd: first, env });
  for (const folder of ["holdfast-forge", "holdfast-forge/issues"]) mkdirSync(join(remote, folder));
  mkdirSync(join(directory, "agents"));
  for (const { number, title } of issues)
    writeFileSync(join(remote, `holdfast-forge/issues/${number}.md`), `---\ntitle: ${title}\n---\n`);
  for (const issue of issues) writeFileSync(agentPath(directory, issue), agentScript(issue));
  return remote;
}

export function agentPath(directory, { number }) {
  return join(directory, "agents", `${number}.json`);
}

/** The script of an issue's agent: it writes half of a file, works on, and writes the whole file. Then it reviews it. */
function agentScript({ number, title, path, text }) {
  const usage = { input: 1800, output: 450, microUsd: 9200 };
  const scores = { faithful: 97, style: 94, docs: 92, cornerCases: 93 };
  const review = JSON.stringify({ scores, overall_score: 94, findings: [], suggestions: [] });
  const edits = [
    { do: "write", path, text: text.slice(0, text.length / 2) },
    { do: "wait", ms: 2500 },
    { do: "write", path, text },
  ];
  const impl = {
    edits,
    commitReport: `${title}\n`,
    finalize: { title: `[feat][#${number}] ${title}` },
    reply: "Done.",
  };
  return JSON.stringify({
    answers: [
      { when: { role: "impl" }, ...impl, usage },
      { when: { role: "review" }, reply: review, usage },
    ],
  });
}

/** A home and a clone of the remote. */
export async function makeMachine({ directory, remote, postgres, entry, name }) {
  const [home, clone] = [join(directory, name), join(directory, name, "shop")];
  mkdirSync(home);
  const env = {
    ...plainEnvironment(home),
    ...postgres.env,
    HOLDFAST_STORE: postgres.url,
    HOLDFAST_DISPATCH_TIMINGS: JSON.stringify(TIMINGS),
    // This demo wrote the settings of the repository itself.
    HOLDFAST_TRUST: "1",
  };
  await run("git", ["clone", "-q", remote, clone], { env });
  const commands = new Set();
  const holdfast = async (...args) => {
    const options = { cwd: clone, env, maxBuffer: 64 * 1024 * 1024 };
    const command = run(process.execPath, [entry, "--json", ...args], options);
    commands.add(command);
    const { stdout } = await command.finally(() => commands.delete(command));
    return JSON.parse(stdout);
  };
  /** Resolves when every command has ended. */
  const settle = () => Promise.allSettled(commands);
  return { name, clone, env, holdfast, settle, join: (slots) => startWorker({ name, clone, env, entry, slots }) };
}

function plainEnvironment(home) {
  const person = { NAME: "Demo", EMAIL: "demo@localhost" };
  return {
    PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
    HOME: home,
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    ...Object.fromEntries(
      Object.entries(person).flatMap(([key, value]) => [
        [`GIT_AUTHOR_${key}`, value],
        [`GIT_COMMITTER_${key}`, value],
      ]),
    ),
  };
}

/** Starts a worker. `runs` are those that it has started, with whether it has seen their end. */
function startWorker({ name, clone, env, entry, slots }) {
  const args = [entry, "--json", "worker", "--join", "--here", "--slots", String(slots)];
  // In its own session: Ctrl+C reaches the demo alone, which then ends the workers.
  const child = spawn(process.execPath, args, { cwd: clone, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const runs = [];
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
  const joined = new Promise((resolve, reject) => {
    child.once("exit", () => reject(new Error(`${name} did not join: ${errors}`)));
    onLine(child.stdout, (line) => {
      const { kind, run: id } = JSON.parse(line);
      if (kind === "joined") resolve();
      if (kind === "start") runs.push({ id, active: true });
      if (kind === "ended") for (const one of runs) if (one.id === id) one.active = false;
    });
  });
  async function signal(kind) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    for (const pid of [child.pid, ...(await descendants(child.pid))]) signalQuietly(pid, kind);
  }
  return {
    name,
    clone,
    slots,
    runs,
    joined,
    active: () => runs.filter(({ active }) => active).map(({ id }) => id),
    /** A signal to the worker and everything that it has started. */
    signal,
    /** As if the machine had lost power. */
    powerOff: () => signal("SIGKILL"),
  };
}

function onLine(stream, take) {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
  });
}

async function descendants(ancestor) {
  const { stdout } = await run("ps", ["-A", "-o", "pid=,ppid="]);
  const parents = stdout
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  const found = [ancestor];
  for (const pid of found) for (const [child, parent] of parents) if (parent === pid) found.push(child);
  return found.slice(1);
}

function signalQuietly(pid, kind) {
  try {
    process.kill(pid, kind);
  } catch {
    // It has ended by itself.
  }
}
