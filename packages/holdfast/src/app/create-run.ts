import { HoldfastError } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import { checkOneOf, checkOptions } from "../core/options.ts";
import { RUN_ID } from "../core/run/run.ts";
import type { Run, Work } from "../core/run/run.ts";
import { makeRunId } from "../core/run/run-id.ts";
import type { Parts } from "../engine/parts.ts";
import { refuseRolledBack } from "../engine/save/newer-refs.ts";
import { WORKTREE } from "../engine/save/worktree-label.ts";
import { labelHere } from "./here.ts";

/** A run that its caller carries by hand. */
export async function createRun(parts: Parts, cwd: string, params: CreateRunParams): Promise<Run> {
  const { store, workspaces } = parts;
  checkOptions("createRun", params, ["id", "workflow", "work", "labels", "workspace"]);
  checkOneOf("createRun", "workspace", params.workspace, ["here", "new", "none"]);
  const work = params.work ?? { kind: "none" };
  const id = params.id ?? makeRunId({ work, random: parts.random() });
  if (!RUN_ID.test(id)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `"${id}" cannot be a run id`,
      hint: "Use up to 63 lower-case letters, digits and hyphens, such as issue-42.",
    });
  }
  const here = params.workspace === "here" ? await labelHere(workspaces, cwd) : undefined;
  const path = parts.worktreePath?.(id);
  const own =
    params.workspace === "new" && workspaces !== null
      ? { run: id, ...(path === undefined ? {} : { path }) }
      : undefined;
  // Before the run is made: one that can have no worktree is not left behind empty.
  if (own !== undefined && (await store.getRun(id)) === undefined) await workspaces?.check(own);
  await refuseRolledBack(parts, id);
  const run = await store.createRun({
    id,
    workflow: params.workflow ?? "manual",
    work,
    labels: { ...params.labels, ...(here === undefined ? {} : { [WORKTREE]: here }) },
  });
  if (own !== undefined) await workspaces?.create(own);
  return run;
}

export interface CreateRunParams {
  /** Made from the work ("issue-42-k3f9") when absent. */
  readonly id?: string;
  readonly workflow?: string;
  readonly work?: Work;
  readonly labels?: JsonObject;
  /** "here": checkpoints capture the worktree we are in; "new": a worktree of its own; "none" (default): values only. */
  readonly workspace?: "here" | "new" | "none";
}
