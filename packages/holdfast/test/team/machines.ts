// Machines on one computer: each has its own network, process ids, host name and home. It reaches a database and a git remote over two cables,
// which a test can pull. Needs root; all traffic stays inside.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, readlinkSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

export type Cable = "database" | "git";

export interface Network {
  /** The address of this computer on each cable. */
  readonly address: Readonly<Record<Cable, string>>;
  machine(name: string, options: { readonly directory: string; readonly wrongClock: boolean }): Promise<Machine>;
  remove(): Promise<void>;
}

export interface WorkerEvent {
  readonly kind: string;
  readonly run?: string;
  readonly exit?: string | null;
  readonly problem?: string;
}

export interface Machine {
  readonly name: string;
  readonly home: string;
  readonly clone: string;
  /** Variables of everything that runs there. */
  readonly env: Readonly<Record<string, string>>;
  /** What its workers have printed, over all their lives. */
  readonly events: readonly WorkerEvent[];
  /** Starts a worker, and returns when it has joined. */
  startWorker(command: readonly string[], env: Readonly<Record<string, string>>): Promise<void>;
  /** SIGKILL to the worker alone. */
  killWorker(): Promise<void>;
  /** SIGTERM to the worker; returns when it has left. */
  stopWorker(): Promise<void>;
  /** SIGKILL to everything. */
  powerOff(): Promise<void>;
  powerOn(): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** The working folders of the processes whose command line has this word. */
  foldersOf(word: string): readonly string[];
  commandLines(): readonly string[];
  /** Whether the process with this id, as the machine counts, is there. */
  has(pid: number): boolean;
  pull(cable: Cable): void;
  plug(cable: Cable): void;
}

const CLOCK = "/usr/lib/*/faketime/libfaketimeMT.so.1";

/** Why there can be no machines; null: there can. */
export function machinesMissing(): string | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "network namespaces need root on Linux";
  const name = `holdfast-${process.pid}-try`;
  if (spawnSync("ip", ["netns", "add", name]).status !== 0)
    return "there is no `ip`, or it may not create network namespaces (Debian: apt-get install iproute2)";
  const args = ["netns", "exec", name, "unshare", "--uts", "--pid", "--fork", "--mount-proc", "hostname", "trial"];
  const { status } = spawnSync("ip", args);
  spawnSync("ip", ["netns", "delete", name]);
  return status === 0 ? null : "`unshare` may not create namespaces of processes and host names";
}

/** The library that sets a clock wrong; null: it is not installed. */
export function clockLibrary(): string | null {
  return globSync(CLOCK)[0] ?? null;
}

export function createNetwork(): Network {
  removeStale();
  const tag = `hf${process.pid}`;
  // 198.18.0.0/15 is reserved for tests of networks.
  const third = process.pid % 250;
  const cables = {
    database: { link: `${tag}d`, net: `198.18.${third}` },
    git: { link: `${tag}g`, net: `198.19.${third}` },
  };
  const machines: Machine[] = [];
  const spaces: string[] = [];
  for (const { link, net } of Object.values(cables)) {
    ip("link", "add", link, "type", "bridge");
    ip("address", "add", `${net}.1/24`, "dev", link);
    ip("link", "set", link, "up");
  }
  return {
    address: { database: `${cables.database.net}.1`, git: `${cables.git.net}.1` },
    async machine(name, { directory, wrongClock }) {
      const number = machines.length;
      const space = `holdfast-${process.pid}-${name}`;
      ip("netns", "add", space);
      spaces.push(space);
      ip("-n", space, "link", "set", "lo", "up");
      for (const [cable, { link, net }] of Object.entries(cables)) {
        ip("link", "add", `${link}${number}`, "type", "veth", "peer", "name", cable, "netns", space);
        ip("link", "set", `${link}${number}`, "master", link, "up");
        ip("-n", space, "address", "add", `${net}.${10 + number}/24`, "dev", cable);
        ip("-n", space, "link", "set", cable, "up");
      }
      const plug = (cable: Cable, state: "up" | "down"): void => {
        ip("link", "set", `${cables[cable].link}${number}`, state);
      };
      const library = wrongClock ? clockLibrary() : null;
      const clock: Readonly<Record<string, string>> =
        library === null ? {} : { LD_PRELOAD: library, FAKETIME: "+1h", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
      const machine = await bootMachine({ name, space, directory, clock, plug });
      machines.push(machine);
      return machine;
    },
    async remove() {
      for (const machine of machines) await machine.powerOff();
      for (const space of spaces) spawnSync("ip", ["netns", "delete", space]);
      for (const { link } of Object.values(cables)) spawnSync("ip", ["link", "delete", link]);
    },
  };
}

/** Removes what a killed test left behind. Its machines ended with it. */
function removeStale(): void {
  const listed = spawnSync("ip", ["netns", "list"], { encoding: "utf8" }).stdout;
  for (const [space, owner = ""] of listed.matchAll(/^holdfast-(\d+)-\w+/gm)) {
    if (existsSync(`/proc/${owner}`)) continue;
    spawnSync("ip", ["netns", "delete", space]);
    for (const cable of ["d", "g"]) spawnSync("ip", ["link", "delete", `hf${owner}${cable}`]);
  }
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
}

async function bootMachine(params: {
  readonly name: string;
  readonly space: string;
  readonly directory: string;
  readonly clock: Readonly<Record<string, string>>;
  readonly plug: (cable: Cable, state: "up" | "down") => void;
}): Promise<Machine> {
  const { name, space, clock, plug } = params;
  const home = join(params.directory, name);
  mkdirSync(home, { recursive: true });
  const env = { PATH: process.env["PATH"] ?? "", HOME: home, LANG: "C.UTF-8", GIT_CONFIG_NOSYSTEM: "1", ...clock };
  const events: WorkerEvent[] = [];
  const entered: ChildProcess[] = [];
  let first = await startFirst(name, space);

  /** The processes of the machine, as this computer counts them. */
  const pids = (): readonly number[] => {
    const all = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
    return all.filter((pid) => namespaceOf(pid) === first.namespace).map(Number);
  };
  const workers = (): readonly number[] => pids().filter((pid) => readProc(pid, "cmdline").includes("\0--join\0"));
  const signal = (list: readonly number[], kind: NodeJS.Signals): void => {
    for (const pid of list) sendSignal(pid, kind);
  };
  const gone = async (list: readonly number[]): Promise<void> => {
    while (list.some((pid) => existsSync(`/proc/${pid}`) && !isZombie(pid))) await pause(50);
  };
  return {
    name,
    home,
    clone: join(home, "shop"),
    env,
    events,
    async startWorker(command, more) {
      const enter = ["--target", String(first.pid), "--pid", "--uts", "--net", "--mount", `--wdns=${home}/shop`];
      const child = spawn("nsenter", [...enter, ...command], {
        env: { ...env, ...more },
        stdio: ["ignore", "pipe", "pipe"],
      });
      entered.push(child);
      const start = events.length;
      let errors = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
      onLine(child, (line) => void events.push(JSON.parse(line)));
      while (!events.slice(start).some(({ kind }) => kind === "joined")) {
        if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${name} did not join: ${errors}`);
        await pause(50);
      }
    },
    async killWorker() {
      const list = workers();
      signal(list, "SIGKILL");
      await gone(list);
    },
    async stopWorker() {
      const list = workers();
      signal(list, "SIGTERM");
      await gone(list);
    },
    async powerOff() {
      const list = pids();
      // The kernel ends all processes of the namespace with its first one.
      signal([first.pid], "SIGKILL");
      await gone(list);
    },
    async powerOn() {
      first = await startFirst(name, space);
    },
    freeze: () => signal(pids(), "SIGSTOP"),
    thaw: () => {
      signal(pids(), "SIGCONT");
      // nsenter stops with its child, and must run again: a machine ends only when all of its processes have been reaped.
      for (const child of entered) child.kill("SIGCONT");
    },
    foldersOf: (word) =>
      pids()
        .filter((pid) => readProc(pid, "cmdline").split("\0").includes(word))
        .flatMap((pid) => folderOf(pid) ?? []),
    commandLines: () => pids().map((pid) => readProc(pid, "cmdline").replaceAll("\0", " ").trim()),
    has: (pid) => pids().some((one) => readProc(one, "status").includes(`\t${pid}\n`) && !isZombie(one)),
    pull: (cable) => plug(cable, "down"),
    plug: (cable) => plug(cable, "up"),
  };
}

/** The first process of a machine. It ends with this one, whose pipe it reads, and all others end with it. */
async function startFirst(name: string, space: string): Promise<{ readonly pid: number; readonly namespace: string }> {
  const unshare = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"];
  const child = spawn("ip", ["netns", "exec", space, ...unshare, "sh", "-c", `hostname ${name}; cat`], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.stdin.on("error", () => undefined);
  // Its echo shows that the host name is set.
  child.stdin.write("ready\n");
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const pid = Number(readProc(child.pid ?? 0, `task/${child.pid}/children`).trim());
  return { pid, namespace: namespaceOf(String(pid)) };
}

function namespaceOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return "";
  }
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

function folderOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
}

function isZombie(pid: number): boolean {
  return /^State:\tZ/m.test(readProc(pid, "status"));
}

function sendSignal(pid: number, kind: NodeJS.Signals): void {
  try {
    process.kill(pid, kind);
  } catch {
    // It has ended.
  }
}

function onLine(child: ChildProcess, take: (line: string) => void): void {
  let rest = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  });
}
