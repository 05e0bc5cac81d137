// A PostgreSQL server for tests: one for all tests of a run, or one of its own for a test that kills it.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const PROGRAMS = "/usr/lib/postgresql";
const USER = "holdfast";
/** Set by vitest.config.ts: the directory of the server that the tests of one run share, and the process whose end is the run's. */
export const SHARED = "HOLDFAST_TEST_POSTGRES";
export const SHARED_BY = "HOLDFAST_TEST_POSTGRES_BY";
/** A role that must give this password; the others need none. */
export const GUARDED = { role: "guarded", password: "pw7q-guarded" };

export interface PostgresServer {
  /** The URL of a schema, by default of one that no other test uses. */
  url(schema?: string): string;
  /** Runs SQL through psql as superuser, and returns what it prints. */
  sql(text: string): string;
}

export interface OwnPostgresServer extends PostgresServer {
  /** kill -9 of the server and all its processes. */
  crash(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

function programs(): string | null {
  const versions = existsSync(PROGRAMS) ? readdirSync(PROGRAMS).toSorted((a, b) => Number(b) - Number(a)) : [];
  const found = versions
    .map((version) => join(PROGRAMS, version, "bin"))
    .find((path) => existsSync(join(path, "initdb")));
  return found ?? null;
}

/** The path of a client program, such as pg_dump. */
export function postgresProgram(name: string): string {
  return join(programs() ?? "", name);
}

/** PostgreSQL refuses to run as root. */
function account(): { readonly uid: number; readonly gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const number = (flag: string): number => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  return { uid: number("-u"), gid: number("-g") };
}

/** Why tests that need PostgreSQL are skipped; null: they run. */
export function postgresMissing(): string | null {
  if (programs() === null) return `PostgreSQL is not installed below ${PROGRAMS} (Debian: apt-get install postgresql)`;
  const { uid } = account() ?? { uid: 1 };
  return uid > 0 ? null : "PostgreSQL does not run as root, and there is no user postgres";
}

/**
 * A test run that is killed cannot stop its servers. This process does, and removes their files. It ends with the server.
 */
const WATCHDOG = `while kill -0 "$1" 2>/dev/null; do
  kill -0 "$2" 2>/dev/null || exit 0
  sleep 1
done
kill -QUIT "$2"
while kill -0 "$2" 2>/dev/null; do sleep 1; done
rm -rf "$3"`;

function watch(owner: number, server: ChildProcess, directory: string): void {
  const args = ["-c", WATCHDOG, "watchdog", String(owner), String(server.pid), directory];
  spawn("/bin/sh", args, { stdio: "ignore", detached: true, cwd: "/" }).unref();
}

/** `owner`: the process that the server must not outlive. */
function serverIn(
  directory: string,
  owner: number,
  own: Readonly<Record<string, string>> = {},
  access: readonly string[] = [],
): PostgresServer & { readonly start: () => Promise<ChildProcess> } {
  const bin = programs() ?? "";
  const data = join(directory, "data");
  const place = ["-h", directory, "-p", own["port"] ?? "5432"];
  const user = account();
  const as = user ?? {};
  const run = (program: string, args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(join(bin, program), args, { encoding: "utf8", cwd: "/", ...as });
    if (status !== 0) throw new Error(`${program} failed: ${stderr}`);
    return stdout;
  };
  const sql = (text: string): string => {
    for (;;)
      try {
        return run("psql", [...place, "-U", USER, "-d", "postgres", "-AtqX", "-v", "ON_ERROR_STOP=1", "-c", text]);
      } catch (error) {
        // This SQL and a worker waited for each other, so PostgreSQL rolled this SQL back.
        if (!String(error).includes("deadlock detected")) throw error;
      }
  };
  return {
    url: (schema = `t_${Math.random().toString(36).slice(2)}`) =>
      `postgres://${USER}@${encodeURIComponent(directory)}/postgres?schema=${schema}`,
    sql,
    async start() {
      if (!existsSync(data)) {
        if (user !== null) chownSync(directory, user.uid, user.gid);
        run("initdb", [
          "-D",
          data,
          "-U",
          USER,
          "-A",
          "trust",
          "-E",
          "UTF8",
          "--locale=C.UTF-8",
          "--no-sync",
          "--no-instructions",
        ]);
        writeFileSync(
          join(data, "pg_hba.conf"),
          [
            `local all ${GUARDED.role} scram-sha-256`,
            "local all all trust",
            "hostssl all all 127.0.0.1/32 trust",
            ...access,
            "",
          ].join("\n"),
        );
      }
      const settings = {
        listen_addresses: "",
        unix_socket_directories: directory,
        fsync: "on",
        max_connections: "200",
        // Shared memory of a killed server goes with its directory.
        dynamic_shared_memory_type: "mmap",
        ...own,
      };
      const options = Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
      const server = spawn(join(bin, "postgres"), ["-D", data, ...options], {
        stdio: "ignore",
        detached: true,
        cwd: "/",
        ...as,
      });
      server.unref();
      watch(owner, server, directory);
      for (;;) {
        if (spawnSync(join(bin, "pg_isready"), ["-q", ...place], as).status === 0) return server;
        if (server.exitCode !== null) throw new Error(`PostgreSQL ended with ${server.exitCode} in ${directory}`);
        await delay(50);
      }
    },
  };
}

/** Settings of a server that encrypts, with a certificate of an own authority for `localhost`, and the file of that authority. */
export async function tlsSettings(
  directory: string,
): Promise<{ readonly settings: { readonly port: string } & Record<string, string>; readonly authority: string }> {
  const path = (name: string): string => join(directory, name);
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const openssl = (args: readonly string[]): void => {
    const { status, stderr } = spawnSync("openssl", args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`openssl failed: ${stderr}`);
  };
  openssl(["req", "-x509", ...key, "-subj", "/CN=authority", "-keyout", path("ca.key"), "-out", path("ca.crt")]);
  openssl([
    "req",
    ...key,
    "-subj",
    "/CN=localhost",
    "-addext",
    "subjectAltName=DNS:localhost",
    "-keyout",
    path("server.key"),
    "-out",
    path("server.csr"),
  ]);
  openssl([
    "x509",
    "-req",
    "-in",
    path("server.csr"),
    "-copy_extensions",
    "copy",
    "-CA",
    path("ca.crt"),
    "-CAkey",
    path("ca.key"),
    "-out",
    path("server.crt"),
  ]);
  const user = account();
  if (user !== null) for (const name of ["server.key", "server.crt"]) chownSync(path(name), user.uid, user.gid);
  return {
    settings: {
      listen_addresses: "127.0.0.1",
      port: await freePort(),
      ssl: "on",
      ssl_cert_file: path("server.crt"),
      ssl_key_file: path("server.key"),
    },
    authority: path("ca.crt"),
  };
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return String(typeof address === "object" ? address?.port : "");
}

/** Starts the shared server unless a test file before has started it. */
export async function sharedPostgres(): Promise<PostgresServer> {
  const directory = process.env[SHARED];
  if (directory === undefined) throw new Error(`${SHARED} is not set`);
  const server = serverIn(directory, Number(process.env[SHARED_BY]));
  const ready = join(directory, "ready");
  const failed = join(directory, "failed");
  try {
    mkdirSync(join(directory, "starting"));
  } catch {
    while (!existsSync(ready)) {
      if (existsSync(failed)) throw new Error(`PostgreSQL did not start: ${readOr(failed)}`);
      await delay(50);
    }
    return server;
  }
  try {
    await server.start();
    server.sql(`CREATE ROLE ${GUARDED.role} LOGIN SUPERUSER PASSWORD '${GUARDED.password}'`);
  } catch (error) {
    writeFileSync(failed, String(error));
    throw error;
  }
  writeFileSync(ready, "");
  return server;
}

export async function startPostgres(
  later: (stop: () => Promise<void>) => void,
  params: {
    /** Where there is no server yet. */
    readonly directory?: string;
    readonly settings?: Readonly<Record<string, string>>;
    /** Further lines of pg_hba.conf. */
    readonly access?: readonly string[];
  } = {},
): Promise<OwnPostgresServer> {
  const { directory = mkdtempSync(join(tmpdir(), "holdfast-pg-")), settings = {}, access = [] } = params;
  const server = serverIn(directory, process.pid, settings, access);
  let running = await server.start();
  async function end(signal: NodeJS.Signals): Promise<void> {
    const ended = new Promise((resolve) => running.once("exit", resolve));
    if (running.exitCode !== null || running.signalCode !== null || running.pid === undefined) return;
    const { pid } = running;
    // Each child is a process group of its own.
    const children = signal === "SIGKILL" ? readOr(`/proc/${pid}/task/${pid}/children`).split(" ") : [];
    process.kill(pid, signal);
    for (const child of children.filter((one) => one !== "")) killQuietly(Number(child));
    await ended;
  }
  const own: OwnPostgresServer = {
    ...server,
    crash: () => end("SIGKILL"),
    async start() {
      // A process of a killed server holds its shared memory until it has ended.
      for (let attempt = 1; ; attempt += 1) {
        try {
          running = await server.start();
          return;
        } catch (error) {
          if (attempt === 100) throw error;
          await delay(100);
        }
      }
    },
    stop: () => end("SIGINT"),
  };
  later(async () => {
    await own.crash();
    rmSync(directory, { recursive: true, force: true });
  });
  return own;
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended with its parent.
  }
}

/** Stops the shared server, if a test has started it. For vitest.config.ts. */
export function stopSharedPostgres(directory: string): void {
  const pid = Number(readOr(join(directory, "data/postmaster.pid")).split("\n")[0]);
  if (pid > 1) process.kill(pid, "SIGQUIT");
  rmSync(directory, { recursive: true, force: true, maxRetries: 20 });
}

function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
