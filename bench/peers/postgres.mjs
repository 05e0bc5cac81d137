import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createServer } from "node:net";
import { stopAtExit } from "./guard.mjs";

/** Starts a PostgreSQL server on a loopback port. The server refuses to run as root; root runs it as the user "postgres". */
export async function startPostgres(directory) {
  const bin = findBin();
  const root = process.getuid?.() === 0;
  const data = join(directory, "postgres");
  mkdirSync(data, { recursive: true });
  if (root) {
    chmodSync(directory, 0o755);
    const id = (flag) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
    chownSync(data, id("-u"), id("-g"));
  }
  const port = await freePort();
  const wordsOf = (program, args) =>
    root ? ["runuser", "-u", "postgres", "--", join(bin, program), ...args] : [join(bin, program), ...args];
  const run = (program, ...args) => {
    const [command, ...rest] = wordsOf(program, args);
    const { status, stderr } = spawnSync(command, rest, {
      encoding: "utf8",
      cwd: "/",
      stdio: ["ignore", "ignore", "pipe"],
    });
    if (status !== 0) throw new Error(`${program} failed: ${stderr}`);
  };
  run("initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-instructions");
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  const [command, ...args] = wordsOf("pg_ctl", ["-D", data, "-m", "fast", "stop"]);
  const stop = stopAtExit(command, args);
  run("pg_ctl", "-D", data, "-w", "-l", join(data, "log"), "-o", options, "start");
  run("createdb", "-h", "127.0.0.1", "-p", String(port), "-U", "bench", "bench");
  return { url: `postgresql://bench@127.0.0.1:${port}/bench`, stop };
}

function findBin() {
  const base = "/usr/lib/postgresql";
  const versions = existsSync(base) ? readdirSync(base).sort((a, b) => Number(b) - Number(a)) : [];
  for (const version of versions) {
    const bin = join(base, version, "bin");
    if (existsSync(join(bin, "initdb"))) return bin;
  }
  throw new Error("PostgreSQL is not installed: apt-get install postgresql");
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
