/*
 * `holdfast/context`: checkpoints for those who want nothing else. Values and token counts of a task, saved as versions;
 * contexts that fork, merge, and go back. See docs/context.md.
 */

// Checkpoints and where they are kept
export { Checkpoint } from "./checkpoint.ts";
export type { CheckpointParams, TokenUsage } from "./checkpoint.ts";
export type { CheckpointDocument } from "./checkpoint.ts";
export { CheckpointStore } from "./context.ts";
export type { SaveParams } from "./context.ts";
export type { OpenOptions } from "./tasks.ts";

// What a task works with
export { Context } from "./context.ts";
export type { ContextState } from "./context-state.ts";
export type { ContextConflict } from "./context-tree.ts";
export type { Json, JsonObject } from "@holdfast/core/json";

// Errors: every failure is a HoldfastError with code, hint and data; `CheckpointError` is the same class.
export { HoldfastError, HoldfastError as CheckpointError } from "@holdfast/platform/error";
export type { ErrorCode } from "@holdfast/platform/error";
