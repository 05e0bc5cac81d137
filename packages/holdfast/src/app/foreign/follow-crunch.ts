import type { Parts } from "../../engine/parts.ts";
import type { ProgressListener } from "../../engine/progress-event.ts";
import { crunchRoot } from "./crunch-root.ts";
import { followRun } from "./follow-run.ts";
import type { FollowedRun } from "./follow-run.ts";
import { Mirror } from "./mirror.ts";

/** Keeps crunch's directory in the main worktree up to date with a crunch run. */
export async function followCrunch(params: {
  readonly parts: Parts;
  readonly run: string;
  readonly cwd: string;
  readonly listen: ProgressListener | undefined;
}): Promise<FollowedRun> {
  const { parts, run, listen } = params;
  const root = await crunchRoot(parts.workspaces, params.cwd);
  const fresh = (): Mirror => new Mirror({ parts, run, to: "crunch-yaml", root });
  let mirror = fresh();
  const catchUp = async (): Promise<void> => {
    try {
      await mirror.catchUp();
    } catch (error) {
      // What it had written it will find there.
      mirror = fresh();
      throw error;
    }
  };
  return followRun({ run, listen, what: "Crunch's directory", catchUp });
}
