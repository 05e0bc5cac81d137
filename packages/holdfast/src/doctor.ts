/** Gathers what `holdfast doctor` reports about this machine, repository and store. */
import { isHalfRestored } from "@holdfast/core/status";
import { type OpenParams, checkOpenParams, openHoldfast } from "./open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { type DoctorReport, type Observations, diagnose } from "./diagnosis.ts";
import { describeVolume } from "@holdfast/platform/file-system";
import { findProgram, freeBytes, runProcess } from "@holdfast/platform/subprocess";

const FORGES = ["gh", "glab"];

/** Checks everything that Holdfast depends on. Works even if the store cannot be opened. */
export async function doctor(params: OpenParams = {}): Promise<DoctorReport> {
  checkOpenParams("doctor", params);
  // Loaded on demand: the library exports this function, and agents and forges take half of the time to import it.
  const { observeAgents } = await import("./check-agents.ts");
  const { observeForgeLogin } = await import("./find-forge.ts");
  const programs = (names: readonly string[]) => names.map((name) => ({ name, path: findProgram(name) ?? null }));
  const [git, free, agents, forge, opened, hasIdentity] = await Promise.all([
    gitVersion(),
    freeBytes(params.cwd ?? "."),
    observeAgents(),
    observeForgeLogin({
      choice: params.forge ?? { kind: "auto", path: null },
      folder: params.cwd ?? ".",
      env: process.env,
    }),
    observeStore(params),
    observeIdentity(params.cwd ?? "."),
  ]);
  const forges = programs(FORGES);
  const volume = describeVolume(params.cwd ?? ".");
  const machine = { node: process.version, git, freeBytes: free, volume };
  return diagnose({ ...machine, agents, forges, forge, hasIdentity, ...opened });
}

async function observeIdentity(directory: string): Promise<boolean | null> {
  const { openGitWorkspaces } = await import("@holdfast/git/workspaces");
  try {
    const workspaces = await openGitWorkspaces(directory);
    try {
      return (await workspaces.describeCheckout())?.hasIdentity ?? null;
    } finally {
      await workspaces.close();
    }
  } catch (error) {
    // Other checks report a missing git or repository.
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

type Opened = Pick<
  Observations,
  "inRepository" | "store" | "unfinishedRestores" | "halfRemoved" | "danglingRefs" | "sideWorktrees"
>;

async function observeStore(params: OpenParams): Promise<Opened> {
  try {
    await using holdfast = await openHoldfast({ ...params, create: false, readOnly: true });
    const stats = await holdfast.store.stats();
    const { danglingRefs, sideWorktrees, usage } = await holdfast.planGc();
    return {
      inRepository: holdfast.workspaces !== null,
      store: {
        kind: "healthy",
        engine: stats.engine,
        durability: stats.durability,
        runs: stats.runs,
        bytes: stats.bytes,
        usage,
        size: await holdfast.sizeReport(),
      },
      unfinishedRestores: (await holdfast.statuses()).flatMap(({ run: { id, unfinishedRestore }, status }) =>
        unfinishedRestore !== null && isHalfRestored({ unfinishedRestore, status })
          ? [{ run: id, target: unfinishedRestore }]
          : [],
      ),
      halfRemoved: (await holdfast.halfRemovedRuns()).map(({ run }) => run),
      danglingRefs: danglingRefs.length,
      sideWorktrees: sideWorktrees.length,
    };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const inRepository = error.code !== "NOT_A_REPOSITORY";
    const nothing = { inRepository, unfinishedRestores: [], halfRemoved: [], danglingRefs: 0, sideWorktrees: 0 };
    if (error.code === "NOT_A_REPOSITORY" || error.code === "STORE_ABSENT")
      return { ...nothing, store: { kind: "absent" } };
    return { ...nothing, store: { kind: "broken", code: error.code, message: error.message, hint: error.hint } };
  }
}

async function gitVersion(): Promise<string | null> {
  if (findProgram("git") === undefined) return null;
  const result = await runProcess({ command: "git", args: ["--version"] });
  return result.code === 0 ? result.stdout.toString().trim() : null;
}
