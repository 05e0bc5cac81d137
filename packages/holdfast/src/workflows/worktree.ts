import { HoldfastError } from "../core/error.ts";
import { runMark } from "../engine/save/run-mark.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import type { Branch } from "../ports/branch.ts";
import type { Forge } from "../ports/forge.ts";
import type { Outputs } from "../ports/output.ts";
import type { AnyContext } from "./any-context.ts";

/** Where people and older tools look for what a run writes beside its work. The run's state never depends on anything in it. */
export const OUTPUT_DIRECTORY = ".tmp";

/** The run's worktree: its branch and the files in it that people read. */
export interface Worktree {
  readonly root: string;
  readonly branch: Branch;
  readonly outputs: Outputs;
}

export async function openWorktree({ parts }: HasParts, context: AnyContext): Promise<Worktree> {
  const root = context.workspace?.root;
  if (root !== undefined) {
    return { root, branch: await parts.branches.of(root), outputs: hiddenOutputs(parts.outputs(root)) };
  }
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `Run ${context.run.id} has no worktree to work in`,
    hint: `\`holdfast resume ${context.run.id}\` brings it back from its newest checkpoint.`,
  });
}

/** An agent may have removed the directory or put something in its place: files in one that does not hide itself would count as the run's work. */
function hiddenOutputs(outputs: Outputs): Outputs {
  return {
    read: (path) => outputs.read(path),
    refusal: (path) => outputs.refusal(path),
    remove: (path) => outputs.remove(path),
    hide: (directory) => outputs.hide(directory),
    async write(path, text) {
      await outputs.hide(OUTPUT_DIRECTORY);
      await outputs.write(path, text);
    },
  };
}

/** Parks where there is none: a person has to configure one, and nothing done so far is lost. */
export async function requireForge({ parts }: HasParts, context: AnyContext): Promise<Forge> {
  if (parts.forge !== null) return parts.forge.marked(`${runMark(parts, context.run.id)}/forge`);
  return await context.park({
    on: "person",
    reason:
      "There is no forge to take issues from and open pull requests at. Add a remote or configure one, then resume.",
  });
}

/** The run's clock, memoised: whoever runs the stage again works with the same time, so commits get the same ids. */
export async function stageTime(context: AnyContext): Promise<string> {
  return await context.step("time", () => new Date(context.now()).toISOString());
}

export function prettyJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

interface HasParts {
  readonly parts: WorkParts;
}
