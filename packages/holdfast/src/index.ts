/** The public API of the `holdfast` package. */
// Open a store
export { Holdfast } from "./holdfast.ts";
export { openHoldfast as open } from "./open.ts";
export type { CreateRunParams, HoldfastDiff, RunOverview } from "./holdfast.ts";
export type { OpenParams } from "./open.ts";
export { doctor } from "./doctor.ts";

// Runs of a workflow
export type { RunDetails } from "./run-status.ts";
export type { RunWithStatus } from "@holdfast/core/run-statuses";
export { isEnded } from "@holdfast/core/run";
export { isHeld, statusWord, waitsForYou } from "@holdfast/core/status";
export type { RunStatus } from "@holdfast/core/status";
export type { StartPlan } from "./plan-start.ts";
export type { Adapters } from "@holdfast/core/adapters";
export type { RunReport } from "./start-run.ts";
export type { ResumeParams } from "./resume-request.ts";
export type { StartParams } from "./plan-start.ts";
export type { Answers, ResumePlan } from "@holdfast/core/resume-plan";

// Runs and checkpoints
export type { RunHandle } from "@holdfast/core/run-handle";
export type { SaveParams } from "@holdfast/core/save";
export type { SavePlan } from "@holdfast/core/save";
export type { RestoreReport, RunRestorePlan } from "@holdfast/core/restore";
export type { UndoPreview, UndoReport } from "@holdfast/core/undo";
export type { RestoreStep } from "@holdfast/core/restore";
export type { CherryPickReport } from "@holdfast/core/cherry-pick";
export type { CherryPickPlan } from "@holdfast/core/cherry-pick";
export type { Comparison } from "./compare-runs.ts";
export { parseFindTarget } from "./find-run.ts";
export type { FindTarget, FoundRun, FoundRuns } from "./find-run.ts";
export type { RollbackChoice } from "@holdfast/core/rollback";
export type { CheckpointPreview } from "@holdfast/core/find-rollback";
export type { GcPlan, GcReport } from "@holdfast/core/gc";
export type { RemovalScope, RemovedWorktree, WorktreeRemoval } from "@holdfast/core/remove-worktrees";
export type { DoctorReport } from "./diagnosis.ts";
export type { Checkpoint, CheckpointSummary, Planes } from "@holdfast/core/checkpoint";
export type { JournalEntry } from "@holdfast/core/journal";
export type { Json, JsonObject, JsonSafe, JsonSafeObject } from "@holdfast/core/json";
export type { StateSchema } from "@holdfast/core/state-schema";
export type { Run, RunState, RunSummary, Work } from "@holdfast/core/run";
export type { RetentionPolicy } from "@holdfast/core/retention";
export { TRIGGERS } from "@holdfast/core/checkpoint";
export type { Trigger } from "@holdfast/core/checkpoint";

// Checkpoint files of issue-to-pull-request tools
export { ImplState, loadCheckpoint, saveCheckpoint } from "./interop/impl-state.ts";
export type { ImplHistory, ImplStage, ImplStateParams } from "./interop/impl-state.ts";

// Error policy and checkpoint switches
export { defaultErrorPolicy } from "@holdfast/core/error-policy";
export type { ErrorPolicy, ErrorRule, RetryPlan } from "@holdfast/core/error-policy";
export type { Pattern } from "@holdfast/core/error-policy";
export type { ErrorVerdict } from "@holdfast/core/position";
export type { CheckpointSwitches } from "@holdfast/core/checkpoint";

// Custom workflows
export { defineWorkflow } from "@holdfast/core/workflow";
export type { WorkflowParams } from "@holdfast/core/workflow";
export type { Guard, Reducer, Workflow } from "@holdfast/core/workflow";
export { runGraph } from "@holdfast/core/run-graph";
export type {
  EndedBatch,
  GraphEnd,
  GraphWaiting,
  GraphWork,
  NodeOutcome,
  NodeScope,
  NodeWork,
} from "@holdfast/core/run-graph";
export type { Graph, GraphEdge, GraphNode, NodeState } from "@holdfast/core/graph";
export type { GraphEvent } from "@holdfast/core/graph-state";
export type { GraphView } from "@holdfast/core/graph-state";
export { resumePoint } from "@holdfast/core/position";
export type { RunOutcome } from "@holdfast/core/progress";
export type { ProgressEvent, ProgressListener } from "@holdfast/core/progress";
export type {
  AgentCall,
  AgentReport,
  SideWorktree,
  SideWorktreeMerged,
  Decision,
  EffectOutcome,
  EffectSpec,
  StageContext,
  StageFunction,
  StageGraph,
  StepOptions,
  StepScope,
} from "@holdfast/core/workflow";
export type { Position } from "@holdfast/core/position";
export type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";

// Errors
export { ERROR_CODES, HoldfastError } from "@holdfast/platform/error";
export type { ErrorCode } from "@holdfast/platform/error";

// Contracts for custom stores, workspaces, agents and forges
export type { Agent, AgentOutcome, AgentTask } from "@holdfast/core/agent";
export type { Forge } from "@holdfast/core/forge";
export type { Store, VerifyEvent } from "@holdfast/core/store";
export type { Workspace, Workspaces } from "@holdfast/core/workspace";
export { openMemoryStore } from "@holdfast/core/store-memory";
export { openSqliteStore } from "@holdfast/core/store-sql/open";
