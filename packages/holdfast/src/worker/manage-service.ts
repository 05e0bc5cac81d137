/** Installs, removes and describes the service that runs the worker: writes its file and calls systemctl or launchctl. */
import { existsSync, readFileSync, realpathSync, rmSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import {
  homeOf,
  makeDurableDirectory,
  readRegularFile,
  removeDurable,
  removeIfEmpty,
  writeDurable,
  xdgHome,
} from "@holdfast/platform/files";
import { findProgram, runProcess } from "@holdfast/platform/subprocess";
import { type CommandWords, type ServicePlan, planService, programOf, serviceVariables } from "./service-files.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** The service of this user on this machine. `repository`: its own programs do not get into the service's PATH. */
export function planOwnService(env: Env, repository: string, flags: readonly string[]): ServicePlan {
  const kind = process.platform === "darwin" ? "launchd" : "systemd";
  return planService({
    kind,
    node: process.execPath,
    entry: ownEntry(),
    flags,
    home: homeOf(env),
    configHome: xdgHome(env, "XDG_CONFIG_HOME"),
    uid: userInfo().uid,
    environment: serviceVariables(env, repository),
  });
}

/** The real path: a package manager may replace the link in a `bin` directory while the worker runs. */
function ownEntry(): string {
  const [, entry = ""] = process.argv;
  return realpathSync(entry);
}

/** Whether the entry is in the cache of `npx`, which npm may delete at any time. */
export function isTemporaryInstallation(): boolean {
  return ownEntry().includes("/_npx/");
}

/** "outdated": the file is there and starts another Node or another Holdfast than this one. */
export function installedFile(plan: ServicePlan): "absent" | "current" | "outdated" {
  const text = readInstalled(plan);
  if (text === null) return "absent";
  return programOf(text) === programOf(plan.text) ? "current" : "outdated";
}

function readInstalled({ path }: ServicePlan): string | null {
  const file = readRegularFile({ path, maxBytes: 1_000_000 });
  return file.kind === "read" ? file.bytes.toString("utf8") : null;
}

/**
 * Why systemctl or launchctl cannot be called here; null: they can. With another HOME than the user's own, the user's
 * service manager does not read the file.
 */
export function cannotManage(plan: ServicePlan, env: Env): string | null {
  const { kind } = plan;
  const missing = missingManager(plan, env);
  if (missing !== null) return `${missing} is not installed`;
  if (homeOf(env) !== userInfo().homedir) return "HOME is not your home directory";
  if (kind === "systemd" && (env["XDG_RUNTIME_DIR"] ?? "") === "" && (env["DBUS_SESSION_BUS_ADDRESS"] ?? "") === "")
    return "there is no session of a systemd user manager";
  return null;
}

/** The program of the service manager that is not installed; null: it is. Without it nothing starts the service. */
export function missingManager({ kind }: ServicePlan, env: Env): string | null {
  const program = kind === "systemd" ? "systemctl" : "launchctl";
  return findProgram(program, env["PATH"] ?? "") === undefined ? program : null;
}

/** Whether the worker starts after each login or boot; null: that cannot be determined here. */
export async function isServiceEnabled(plan: ServicePlan, env: Env): Promise<boolean | null> {
  return cannotManage(plan, env) === null ? (await call(plan.isEnabled)) === null : null;
}

export interface Installation {
  readonly changed: boolean;
  readonly enabled: boolean;
  /** Why the commands were not run, or failed; null: they ran. */
  readonly problem: string | null;
}

/** Writes the file and starts the worker. `isUpToDate`: it runs, and has read the list of repositories. A repeated call, also after a kill, has the same result. */
export async function installService(
  plan: ServicePlan,
  params: { readonly env: Env; readonly isUpToDate: boolean },
): Promise<Installation> {
  const changed = readInstalled(plan) !== plan.text;
  if (changed) {
    makeDurableDirectory(dirname(plan.path), 0o755);
    writeDurable({ path: plan.path, data: Buffer.from(plan.text), mode: "replace", permissions: 0o644 });
  }
  const problem = cannotManage(plan, params.env);
  if (problem !== null) return { changed, enabled: false, problem };
  const enabled = (await call(plan.isEnabled)) === null;
  if (enabled && !changed && params.isUpToDate) return { changed, enabled, problem: null };
  const failed = await callAll(enabled ? plan.restart : plan.enable);
  return { changed, enabled: failed === null, problem: failed };
}

/** Stops the worker and removes the file. Returns whether there was one. */
export async function removeService(
  plan: ServicePlan,
  env: Env,
): Promise<{ readonly removed: boolean; readonly problem: string | null }> {
  const managed = cannotManage(plan, env) === null;
  const enabled = managed && (await call(plan.isEnabled)) === null;
  const problem = enabled ? await callAll(plan.disable) : null;
  // A service that still runs must keep its file: otherwise it could not be stopped any more.
  if (problem !== null) return { removed: false, problem };
  const removed = existsSync(plan.path);
  if (removed) removeDurable(plan.path);
  // What `systemctl enable` links; it remains if the service manager could not be called.
  const link = join(dirname(plan.path), "default.target.wants", "holdfast.service");
  if (plan.kind === "systemd") rmSync(link, { force: true });
  for (const directory of plan.kind === "systemd"
    ? [dirname(link), dirname(plan.path), dirname(dirname(plan.path))]
    : [])
    removeIfEmpty(directory);
  if (removed && managed) await callAll(plan.forget);
  return { removed, problem: null };
}

/** The first failure as text; null: all succeeded. */
async function callAll(commands: readonly CommandWords[]): Promise<string | null> {
  for (const words of commands) {
    const failed = await call(words);
    if (failed !== null) return failed;
  }
  return null;
}

async function call([command = "", ...args]: CommandWords): Promise<string | null> {
  const { kind, code, stderr } = await runProcess({ command, args, timeoutMs: CALL_MS });
  if (kind === "exited" && code === 0) return null;
  const [first = ""] = stderr.trim().split("\n");
  return `${[command, ...args].join(" ")}: ${first === "" ? `exit status ${code ?? "unknown"}` : first}`;
}

/** `systemctl stop` waits until the runs are saved. */
const CALL_MS = 120_000;

/** Whether the user's services run without a login; null: not on systemd. */
export function hasLinger({ kind }: ServicePlan): boolean | null {
  return kind === "systemd" ? existsSync(join("/var/lib/systemd/linger", userInfo().username)) : null;
}

/** The file with variables that only the worker and its runs get, such as API keys. */
export function workerEnvPath(env: Env): string {
  return join(xdgHome(env, "XDG_CONFIG_HOME"), "holdfast/worker.env");
}

/**
 * The environment with the variables of `worker.env` added. The file may hold secrets, so it is refused if other users
 * can read it.
 */
export function readWorkerEnv(env: Env): Env {
  const path = workerEnvPath(env);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return env;
  if (!stat.isFile()) throw usageError(`${path} is not a file`, "It holds lines such as NAME=value.");
  if ((stat.mode & 0o077) !== 0 || (process.getuid !== undefined && stat.uid !== process.getuid()))
    throw usageError(`Other users can use ${path}, which may hold secrets`, `Run \`chmod 600 ${path}\`.`);
  try {
    return { ...env, ...parseEnv(readFileSync(path, "utf8")) };
  } catch (cause) {
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `${path} cannot be read`,
      hint: "Check its access rights.",
      cause,
    });
  }
}
