// Opening
export { Holdfast, openHoldfast as open } from "./app.ts";
export type { CreateRunParams, HoldfastDiff, OpenParams } from "./app.ts";
export { doctor } from "./doctor.ts";

// Work that a workflow carries
export type { Condition, RunStatus, StartPlan, WorkParts, WorkReport } from "./app.ts";
export type { ResumeParams, StartParams } from "./app.ts";
export type { Answers, ResumePlan } from "./core/resume/resume.ts";

// Runs and checkpoints
export type { RunHandle } from "./engine/run-handle.ts";
export type { SaveParams } from "./engine/planes.ts";
export type { SavePlan } from "./engine/save/saver.ts";
export type { RestoreReport, RunRestorePlan } from "./engine/restore/restorer.ts";
export type { RestoreStep } from "./core/resume/restore-step.ts";
export type { GraftReport } from "./engine/graft/apply-graft.ts";
export type { GraftPlan } from "./engine/graft/plan-graft.ts";
export type { Comparison } from "./app/compare/comparison.ts";
export type { RollbackChoice } from "./core/rollback/choose-rollback.ts";
export type { CheckpointPreview } from "./engine/restore/preview-checkpoints.ts";
export type { GcPlan, GcReport } from "./engine/upkeep/collector.ts";
export type { DoctorReport } from "./engine/diagnosis.ts";
export type { Checkpoint, CheckpointSummary, Planes } from "./core/checkpoint/checkpoint.ts";
export type { JournalEntry } from "./core/journal/journal.ts";
export type { Json, JsonObject } from "./core/json.ts";
export type { Run, RunState, RunSummary, Work } from "./core/run/run.ts";
export type { RetentionPolicy } from "./core/retention/retention.ts";
export { TRIGGERS } from "./core/checkpoint/trigger.ts";
export type { Trigger } from "./core/checkpoint/trigger.ts";

// What is done about failed calls, and which checkpoints are taken
export { defaultErrorPolicy } from "./core/error-policy/policy.ts";
export type { ErrorPolicy, ErrorRule, RetryPlan } from "./core/error-policy/policy.ts";
export { readPattern } from "./core/error-policy/pattern.ts";
export type { Pattern } from "./core/error-policy/pattern.ts";
export type { ErrorVerdict } from "./core/error-policy/call-errors.ts";
export type { CheckpointSwitches } from "./core/checkpoint/checkpoint-switches.ts";

// Workflows of one's own
export { defineWorkflow } from "./engine/define-workflow.ts";
export type { WorkflowParams } from "./engine/define-workflow.ts";
export type { Guard, Reducer, Workflow } from "./engine/definition.ts";
export { runGraph } from "./engine/graph/run-graph.ts";
export type {
  EndedBatch,
  GraphEnd,
  GraphWaiting,
  GraphWork,
  NodeOutcome,
  NodeScope,
  NodeWork,
} from "./engine/graph/graph-work.ts";
export type { Graph, GraphEdge, GraphNode, NodeState } from "./core/graph/graph.ts";
export type { GraphEvent } from "./core/graph/graph-state.ts";
export type { GraphView } from "./core/graph/graph-view.ts";
export { resumePoint } from "./core/graph/graph-recovery.ts";
export type { RunOutcome } from "./engine/outcome.ts";
export type { ProgressEvent, ProgressListener } from "./engine/progress-event.ts";
export type {
  AgentCall,
  AgentReport,
  Aside,
  AsideMerged,
  Decision,
  EffectOutcome,
  EffectSpec,
  StageContext,
  StageFunction,
  StageGraph,
  StepOptions,
  StepScope,
} from "./engine/stage-context.ts";
export type { Position } from "./core/position/position.ts";
export type { StageResult, TransitionTable, WorkflowShape } from "./core/position/workflow.ts";

// Errors
export { ERROR_CODES, HoldfastError } from "./core/error.ts";
export type { ErrorCode } from "./core/error.ts";

// Contracts, for those who bring their own store, workspace, agent or forge
export type { Agent, AgentOutcome, AgentTask } from "./ports/agent.ts";
export type { Forge } from "./ports/forge.ts";
export type { Store, VerifyEvent } from "./ports/store.ts";
export type { Workspace, Workspaces } from "./ports/workspace.ts";
export { openMemoryStore } from "./stores/memory/memory-store.ts";
export { openSqliteStore } from "./stores/sqlite/open.ts";
