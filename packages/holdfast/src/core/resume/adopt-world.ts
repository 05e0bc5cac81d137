import { withAccepted } from "./accepted.ts";
import type { Planes } from "../checkpoint/checkpoint.ts";
import type { Setting } from "./finding.ts";
import { isJsonObject } from "../json.ts";
import type { Position } from "../position/position.ts";
import { reliedOn, withIssue, withPushed } from "./relied-on.ts";
import type { IssueChange, ResumeAction } from "./resume.ts";
import { nextVisit } from "../position/visit.ts";

/** Where the run stands once the world as it is now counts as known: the next resume compares with this. */
export function adoptWorld(params: {
  readonly planes: Planes;
  readonly actions: readonly ResumeAction[];
  readonly current: Setting;
}): Planes {
  return params.actions.reduce((planes, action) => adopt(planes, action, params.current), params.planes);
}

function adopt(planes: Planes, action: ResumeAction, current: Setting): Planes {
  switch (action.kind) {
    case "take_issue":
      return tell(changeIssue(planes, action.change), action.feedback);
    case "move_stage":
      return { ...planes, position: movedTo(planes.position, action) };
    case "change_values":
      return { ...planes, context: { ...planes.context, values: { ...planes.context.values, ...action.values } } };
    case "take_settings":
      return {
        ...planes,
        position: { ...planes.position, definition: current.definition },
        config: current.config,
      };
    case "remember": {
      const extensions = withAccepted(planes.extensions, { kind: action.finding, actual: action.actual });
      const commit = isJsonObject(action.actual) ? action.actual["commit"] : undefined;
      const remote = action.finding === "branch_diverged" && typeof commit === "string" ? commit : null;
      return { ...(remote === null ? planes : withPushed(planes, remote)), extensions };
    }
    case "keep_tips":
    case "quarantine":
    case "recreate_branch":
    case "recreate_worktree":
    case "finish_restore":
    case "go_back":
    case "take_files":
    case "put_files_back":
    case "finish":
    case "go_on":
      return planes;
  }
}

function movedTo(position: Position, to: Extract<ResumeAction, { readonly kind: "move_stage" }>): Position {
  const { stage, why, iteration = position.iteration } = to;
  return { ...position, stage, iteration, reason: why, visit: nextVisit(position.visit) };
}

function changeIssue(planes: Planes, change: IssueChange): Planes {
  const { issue } = reliedOn(planes);
  return issue === null ? planes : withIssue(planes, { ...issue, ...change });
}

/** Feedback that no prompt was given yet stands before it. */
function tell(planes: Planes, text: string): Planes {
  const { feedback } = planes.position;
  const news = `The issue was changed after the work began; its new text counts.\n${text}`;
  const both = feedback === null || feedback === "" ? news : `${feedback}\n\n${news}`;
  return { ...planes, position: { ...planes.position, feedback: both } };
}
