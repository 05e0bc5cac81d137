// The user's plan for a run of impl: the option, its part of the prompt, and the plan that an imported document names.

import { isAbsolute, relative, sep } from "node:path";
import type { InputsPlane } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, type TypeOf, isJsonObject, object, sha256, text } from "@holdfast/core/json";
import { checkNames, optionError, record, text as requiredText } from "@holdfast/core/options";
import type { Fence } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";
import { OUTPUT_DIRECTORY } from "../worktree.ts";

export const PLAN_SHAPE = object({ path: text, text });
/** A plan as it was when the run began. Later edits of its file change nothing. */
export type Plan = TypeOf<typeof PLAN_SHAPE>;

const PLAN_FILE = `${OUTPUT_DIRECTORY}/plan.md`;
const MAX_CHARACTERS = 1024 * 1024;

export function parsePlan(given: JsonObject): Plan | null {
  if (given["plan"] === undefined || given["plan"] === null) return null;
  const plan = record(given, "plan");
  checkNames("impl plan", plan, ["path", "text"]);
  const content = requiredText(plan, "text");
  if (content.length > MAX_CHARACTERS) throw optionError("plan.text", content.length, "at most 1 MiB of text");
  return { path: requiredText(plan, "path"), text: content };
}

/** What a checkpoint's inputs say about the plan. */
export function planInput(plan: Plan | null): Pick<InputsPlane, "plan"> {
  return { plan: plan === null ? null : { path: plan.path, digest: sha256(plan.text) } };
}

/** Writes the plan where the prompt says that it is: an agent may have removed it. */
export async function writePlan(outputs: Pick<Outputs, "write">, plan: Plan | null): Promise<void> {
  if (plan !== null) await outputs.write(PLAN_FILE, plan.text);
}

export function planSection(plan: Plan | null, fence: Fence): string {
  if (plan === null || plan.text.trim() === "") return "";
  return `\n\n---\nThe user's plan for this change (also in ${PLAN_FILE}). Follow it unless the issue or the code contradicts it:\n${fence.data("plan", plan.text.trim())}\n`;
}

/**
 * Reads the plan that an imported document names. Only a file of the run's worktree is read, because the agent may read
 * that anyway; a plan elsewhere stays a path. Links that lead out, other kinds of files and large ones are not read.
 */
export async function importedPlan(
  extension: Json | undefined,
  root: string,
  outputs: Pick<Outputs, "read">,
): Promise<Plan | null> {
  const path = isJsonObject(extension) ? extension["plan_file"] : null;
  if (typeof path !== "string" || path === "") return null;
  const inside = (isAbsolute(path) ? relative(root, path) : path).split(sep).join("/");
  try {
    const content = await outputs.read(inside);
    return content === null ? null : { path, text: content };
  } catch (error) {
    // Not a path below the worktree.
    if (error instanceof HoldfastError && error.code === "USAGE") return null;
    throw error;
  }
}
