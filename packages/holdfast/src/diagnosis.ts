/**
 * Turns the observations of `holdfast doctor` into checks with a level and a fix. Pure: doctor.ts gathers the
 * observations.
 */
import type { AgentProbe } from "@holdfast/core/agent";
import type { RunUsage } from "@holdfast/core/gc";
import { SIZE_HINT, type SizeReport } from "@holdfast/core/store-size";
import type { Volume } from "@holdfast/platform/file-system";
import { MIN_GIT_VERSION, isGitTooOld } from "@holdfast/platform/git-command";
import { CLOUD_FIX, NO_IDENTITY, SET_IDENTITY } from "./preflight.ts";
import { judgeSpace } from "./preflight-facts.ts";

/** The plain facts that `doctor` gathers. */
export interface Observations {
  readonly node: string;
  readonly git: string | null;
  readonly inRepository: boolean;
  readonly store:
    | {
        readonly kind: "healthy";
        readonly engine: string;
        readonly durability: string;
        readonly runs: number;
        readonly bytes: number;
        /** The largest run first. */
        readonly usage: readonly RunUsage[];
        readonly size: SizeReport | null;
      }
    | { readonly kind: "absent" }
    | { readonly kind: "broken"; readonly code: string; readonly message: string; readonly hint: string | undefined };
  /** Whether git knows a name and an email of the user; null: there is no checkout. */
  readonly hasIdentity: boolean | null;
  readonly freeBytes: number;
  readonly volume: Volume;
  readonly unfinishedRestores: readonly { readonly run: string; readonly target: string }[];
  readonly halfRemoved: readonly string[];
  readonly danglingRefs: number;
  /** Number of side worktree folders of runs that have ended. */
  readonly sideWorktrees: number;
  readonly agents: readonly { readonly name: string; readonly probe: AgentProbe }[];
  readonly forges: readonly { readonly name: string; readonly path: string | null }[];
  /** The forge that runs in this repository would use; null: none was detected. */
  readonly forge: ObservedForge | null;
}

export interface ObservedForge {
  readonly name: string;
  readonly location: string;
  /** How the forge is accessed: "gh", "GH_TOKEN"; null: it needs no login. */
  readonly login: string | null;
  /** How to log in if there is no login. */
  readonly fix: string | null;
}

/** "missing": it is not there, and Holdfast works without it. */
export type CheckLevel = "ok" | "missing" | "warn" | "fail";

export interface Check {
  readonly name: string;
  readonly level: CheckLevel;
  readonly detail: string;
  readonly fix: string | null;
}

export interface DoctorReport {
  readonly ok: boolean;
  readonly checks: readonly Check[];
  /** Space in the store by run, the largest first; empty if no store can be read. */
  readonly usage: readonly RunUsage[];
}

export function diagnose(seen: Observations): DoctorReport {
  const checks: Check[] = [
    { name: "node", level: "ok", detail: seen.node, fix: null },
    checkGit(seen),
    ...(seen.hasIdentity === false
      ? [{ name: "identity", level: "warn" as const, detail: NO_IDENTITY, fix: SET_IDENTITY }]
      : []),
    checkStore(seen),
    ...(seen.store.kind === "healthy" && seen.store.size !== null ? [checkSize(seen.store.size)] : []),
    checkDisk(seen.freeBytes),
    checkVolume(seen.volume),
    ...seen.unfinishedRestores.map(({ run, target }) => ({
      name: "restore",
      level: "warn" as const,
      detail: `run ${run}: a restore of ${target} did not finish`,
      fix: `Finish it with \`holdfast restore ${target}\`; the files from before it are in a checkpoint, see \`holdfast list ${run}\`.`,
    })),
    ...seen.halfRemoved.map((run) => ({
      name: "removal",
      level: "warn" as const,
      detail: `run ${run} is half removed`,
      fix: `Complete it with \`holdfast rm ${run}\`.`,
    })),
    ...seen.agents.map(checkAgent),
    ...checkAnyAgent(seen.agents),
    checkForge(seen),
  ];
  if (seen.danglingRefs > 0) {
    checks.push({
      name: "refs",
      level: "ok",
      detail: `${seen.danglingRefs} refs of snapshots or side worktrees without a checkpoint`,
      fix: "`holdfast gc` removes them.",
    });
  }
  if (seen.sideWorktrees > 0) {
    checks.push({
      name: "sideWorktrees",
      level: "ok",
      detail: `${seen.sideWorktrees} orphaned side worktrees of runs`,
      fix: "`holdfast gc` removes them; their content stays pinned until the next gc.",
    });
  }
  const usage = seen.store.kind === "healthy" ? seen.store.usage : [];
  return { ok: checks.every((check) => check.level !== "fail"), checks, usage };
}

function checkGit({ git, inRepository }: Observations): Check {
  if (git === null) {
    return { name: "git", level: "fail", detail: "not found on PATH", fix: `Install git ${MIN_GIT_VERSION} or newer.` };
  }
  if (isGitTooOld(git))
    return { name: "git", level: "fail", detail: git, fix: `Install git ${MIN_GIT_VERSION} or newer.` };
  return inRepository
    ? { name: "git", level: "ok", detail: git, fix: null }
    : {
        name: "git",
        level: "warn",
        detail: `${git}; not inside a repository`,
        fix: "Files are captured only inside a git repository.",
      };
}

function checkStore({ store, inRepository }: Observations): Check {
  switch (store.kind) {
    case "healthy":
      return {
        name: "store",
        level: "ok",
        detail: `${store.runs} ${store.runs === 1 ? "run" : "runs"}, ${store.engine}, ${store.durability}`,
        fix: null,
      };
    case "absent":
      return inRepository
        ? { name: "store", level: "ok", detail: "none yet; the first checkpoint creates it", fix: null }
        : {
            name: "store",
            level: "warn",
            detail: "none, and no repository to create it in",
            fix: "Name a directory with --store.",
          };
    case "broken":
      return {
        name: "store",
        level: "fail",
        detail: `${store.code}: ${store.message}`,
        fix: store.hint ?? "Run `holdfast verify`.",
      };
  }
}

function checkSize({ level, text }: SizeReport): Check {
  return { name: "size", level: level === "near" ? "warn" : "fail", detail: text, fix: SIZE_HINT };
}

function checkVolume({ type, unsafe, ignoresCase, cloud }: Volume): Check {
  const detail = `${type}${ignoresCase ? ", ignores case" : ""}${cloud === null ? "" : `, synced by ${cloud}`}`;
  if (unsafe)
    return {
      name: "volume",
      level: "fail",
      detail,
      fix: "Move the repository to a local disk: no store is created here.",
    };
  return { name: "volume", level: cloud === null ? "ok" : "warn", detail, fix: cloud === null ? null : CLOUD_FIX };
}

function checkDisk(free: number): Check {
  const detail = `${(free / 1024 ** 3).toFixed(1)} GiB free`;
  switch (judgeSpace(free)) {
    case "full":
      return { name: "disk", level: "fail", detail, fix: "Free some space, or run `holdfast gc`." };
    case "low":
      return {
        name: "disk",
        level: "warn",
        detail,
        fix: "Little space is left; `holdfast gc --dry-run` shows what can be dropped.",
      };
    case "enough":
      return { name: "disk", level: "ok", detail, fix: null };
  }
}

/**
 * A missing agent is not a fault: only workflows need one, and one is enough. An installed agent that does not answer
 * is a fault.
 */
function checkAgent({ name, probe }: Observations["agents"][number]): Check {
  const { installed, version, problem, hint } = probe;
  if (!installed) return { name, level: "missing", detail: "not installed", fix: hint };
  const detail = [version, problem ?? "ready"].filter((part) => part !== null).join(", ");
  return { name, level: problem === null ? "ok" : "warn", detail, fix: problem === null ? null : hint };
}

/** Checkpoints need no agent, so this is not a failure. */
function checkAnyAgent(agents: Observations["agents"]): readonly Check[] {
  if (agents.some(({ probe }) => probe.installed && probe.problem === null)) return [];
  const fix = "Set one up as its line says, or name any program of yours as `command:PROGRAM`; see docs/agents.md.";
  return [{ name: "agents", level: "warn", detail: "none of these is ready; `run` and `resume` need one", fix }];
}

/** Without a login only issues and pull requests are out of reach, so this is not a failure. */
function checkForge({ forge, forges }: Observations): Check {
  if (forge === null) return listTools("forge", forges);
  const where = `${forge.name}, ${forge.location}`;
  if (forge.fix !== null) return { name: "forge", level: "warn", detail: `${where}: no login`, fix: forge.fix };
  return {
    name: "forge",
    level: "ok",
    detail: forge.login === null ? where : `${where}, through ${forge.login}`,
    fix: null,
  };
}

const FORGE_FIX =
  "Issues and pull requests need a remote at GitHub or GitLab. For a server of your own: `holdfast setup --forge github`.";

/** Only workflows need these tools, so their absence is not a fault. */
function listTools(name: string, tools: Observations["forges"]): Check {
  const found = tools.filter((tool) => tool.path !== null).map((tool) => tool.name);
  const where = "no forge was detected from the remote";
  if (found.length > 0)
    return { name, level: "missing", detail: `${where}; ${found.join(", ")} found`, fix: FORGE_FIX };
  return {
    name,
    level: "missing",
    detail: `${where}; neither ${tools.map((tool) => tool.name).join(" nor ")} found`,
    fix: FORGE_FIX,
  };
}
