import { namedInEnvironment } from "./core/agent/agent-environment.ts";
import { join, resolve as resolvePath } from "node:path";
import { ForeignDesk } from "./app/foreign/foreign-desk.ts";
import { Holdfast } from "./app/holdfast.ts";
import { maskedParts } from "./app/masked-parts.ts";
import { checkOpenParams } from "./app/open-params.ts";
import { createMasking } from "./system/own-secrets.ts";
import type { WorkParts } from "./engine/work-parts.ts";
import type { OpenParams } from "./app/open-params.ts";
import { openOwnStore } from "./app/open-own-store.ts";
import { repositoryOrNull, storeDirectory } from "./app/store-directory.ts";
import { WorkDesk } from "./app/work/work-desk.ts";
import { ALL_CHECKPOINTS } from "./core/checkpoint/checkpoint-switches.ts";
import { defaultErrorPolicy } from "./core/error-policy/policy.ts";
import { DEFAULT_LOOP_LAYOUT } from "./core/lease/loop-layout.ts";
import { DEFAULT_LOOPS } from "./core/lease/loop-settings.ts";
import { storeRetention } from "./core/retention/retention.ts";
import type { Parts } from "./engine/parts.ts";
import { openMemoryStore } from "./stores/memory/memory-store.ts";
import { freeBytes } from "./system/probe.ts";
import { systemClock } from "./system/clock.ts";
import { randomName } from "./system/ids.ts";
import { isSuspended, livenessOf, processIdentity } from "./system/process-identity.ts";
import { createRequestFiles } from "./system/request-files.ts";
import { openGitWorkspaces } from "./workspaces/git-workspaces.ts";

// Opening
export { Holdfast } from "./app/holdfast.ts";
export type { OpenParams } from "./app/open-params.ts";
export type { CheckLevel, DoctorReport } from "./engine/diagnosis.ts";

// Work that a workflow carries
export { loadWorkflow } from "./app/work/load-workflow.ts";
export type { StartParams } from "./app/work/start-params.ts";
export type { StartPlan } from "./app/work/plan-start.ts";
export type { Starting } from "./app/work/starting.ts";
export type { ResumeParams } from "./app/work/resume-params.ts";
export type { WorkReport } from "./app/work/start-run.ts";
export type { WorkParts } from "./engine/work-parts.ts";
export type { RunOutcome } from "./engine/outcome.ts";
export type { ProgressEvent } from "./engine/progress-event.ts";
export type { Ordered } from "./engine/orders/give-order.ts";
export type { RerunReport } from "./app/work/rerun.ts";
export type { ReplayReport } from "./engine/replay/replay-report.ts";

// Where runs stand
export type { Condition } from "./app/look/run-condition.ts";
export type { RunStatus } from "./app/look/run-status.ts";
export type { RunStanding } from "./core/run/run-standing.ts";
export type { Question } from "./app/look/journal-picture.ts";
export type { AgentLogFile } from "./app/look/agent-logs.ts";

// Loops
export type { Loops, Stood } from "./app/look/loops.ts";
export type { PlaceParams } from "./app/work/place-request.ts";
export type { LoopSettings } from "./core/lease/loop-settings.ts";
export { loopPicture } from "./workflows/ralph/loop-picture.ts";
export type { LoopPicture } from "./workflows/ralph/loop-picture.ts";

// Runs and checkpoints
export type { CreateRunParams } from "./app/create-run.ts";
export type { RunHandle } from "./engine/run-handle.ts";
export type { SaveParams } from "./engine/planes.ts";
export type { SavePlan } from "./engine/save/saver.ts";
export { refuseBlocked } from "./engine/restore/restorer.ts";
export type { RestoreReport, RunRestorePlan } from "./engine/restore/restorer.ts";
export type { RestoreStep } from "./core/resume/restore-step.ts";
export type { Rejected, RollbackChoice } from "./core/rollback/choose-rollback.ts";
export type { CheckpointPreview } from "./engine/restore/preview-checkpoints.ts";
export type { GraftPlan } from "./engine/graft/plan-graft.ts";
export type { GraftReport } from "./engine/graft/apply-graft.ts";
export type { HoldfastDiff } from "./app/diff-checkpoints.ts";
export type { ComparedPair, ComparedSide, Comparison } from "./app/compare/comparison.ts";
export type { GcPlan, GcReport } from "./engine/upkeep/collector.ts";
export type { Repaired } from "./engine/upkeep/examiner.ts";

// Checkpoints of other tools
export { schemaText } from "./app/foreign/published-schema.ts";
export type { ForeignDesk } from "./app/foreign/foreign-desk.ts";
export type { LoopCleanupPlan } from "./app/foreign/loop-cleanup.ts";
export type { Mirror, MirrorReport } from "./app/foreign/mirror.ts";
export type { ImportPlan } from "./app/foreign/plan-import.ts";
export type { Validated } from "./app/foreign/validate-files.ts";
export type { Encoded, ForeignCheckpoint, Loss, Remark } from "./formats/format.ts";

/** Opens the store of this repository (or the one given) and the repository's workspaces, if there is one. */
export async function openHoldfast(params: OpenParams = {}): Promise<Holdfast> {
  checkOpenParams(params);
  const cwd = resolvePath(params.cwd ?? ".");
  const workspaces = await repositoryOrNull(openGitWorkspaces(cwd));
  try {
    const directory = storeDirectory(params, workspaces);
    const owns = workspaces !== null && directory === join(workspaces.commonDir, "holdfast");
    const store =
      params.pretend === true
        ? openMemoryStore({ clock: systemClock })
        : await openOwnStore(
            directory,
            { create: params.create ?? true, readOnly: params.readOnly ?? false },
            owns ? workspaces : null,
          );
    const root = params.worktrees;
    const parts: Parts = {
      store,
      workspaces,
      clock: systemClock,
      random: randomName,
      retention: params.retention ?? storeRetention,
      maxUntrackedBytes: params.maxUntrackedBytes,
      includeIgnored: params.includeIgnored ?? false,
      ownsRefs: owns,
      freeBytes,
      liveness: (owner) => livenessOf(owner, processIdentity()),
      suspended: isSuspended,
      leaseWaitMs: params.leaseWaitMs ?? 0,
      requests: params.pretend === true ? null : createRequestFiles(store.location),
      worktreePath: root === undefined ? undefined : (run) => join(root, run),
      sessionsOf: async (agent) => {
        // Only a restore of a conversation asks, and all agents come with it.
        const { createAgentRegistry } = await import("./agents/registry.ts");
        try {
          return createAgentRegistry({ clock: systemClock, directory: cwd }).agent(agent);
        } catch {
          return null;
        }
      },
    };
    const {
      forge = { kind: "auto", path: null },
      prices = {},
      agentArgs = {},
      agentEnv = namedInEnvironment(process.env) ?? [],
      loops = DEFAULT_LOOPS,
      mainCheckout = "ask",
    } = params;
    const { agentIdleMs = AGENT_IDLE_MS, checkpointEveryMs = CHECKPOINT_EVERY_MS } = params;
    const { checkpoints = ALL_CHECKPOINTS, errorPolicy = defaultErrorPolicy } = params;
    const { loopLayout = DEFAULT_LOOP_LAYOUT, parts: decorate } = params;
    const foreign = new ForeignDesk(parts, { cwd, loopLayout, maxLoops: loops.max });
    const kept = {
      checkpoints,
      errorPolicy,
      agentIdleMs,
      checkpointEveryMs,
      prices,
      agentArgs,
      agentEnv,
      mainCheckout,
      loops,
      loopLayout,
    };
    const masking = createMasking();
    const masked = (given: WorkParts): WorkParts => maskedParts(decorate?.(given) ?? given, masking);
    const work = new WorkDesk(parts, { directory: cwd, forge, decorate: masked, ...kept });
    return new Holdfast({ cwd, parts, foreign, work });
  } catch (error) {
    await workspaces?.close();
    throw error;
  }
}

const AGENT_IDLE_MS = 30 * 60_000;
const CHECKPOINT_EVERY_MS = 10 * 60_000;
