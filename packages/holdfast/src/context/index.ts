/*
 * `holdfast/context`: checkpoints without the rest of Holdfast. Saves values and token counts of a task as versions,
 * with contexts that fork, merge and restore. See docs/context.md.
 */

// Checkpoints and their store
export { Checkpoint } from "./checkpoint.ts";
export type { CheckpointParams, TokenUsage } from "./checkpoint.ts";
export type { CheckpointDocument } from "./checkpoint.ts";
export { CheckpointStore } from "./context.ts";
export type { SaveParams } from "./context.ts";
export type { OpenOptions } from "./tasks.ts";

// The working state of a task
export { Context } from "./context.ts";
export type { ContextConfig, ContextOptions } from "./context.ts";
export type { ContextState } from "./context-state.ts";
export type { ContextConflict } from "./context-tree.ts";
export type { Json, JsonObject } from "@holdfast/core/json";

// Errors: every failure is a HoldfastError with code, hint and data; `CheckpointError` and `ContextError` are the same class.
export {
  HoldfastError,
  HoldfastError as CheckpointError,
  HoldfastError as ContextError,
} from "@holdfast/platform/error";
export type { ErrorCode } from "@holdfast/platform/error";
