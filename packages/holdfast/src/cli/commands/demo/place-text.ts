import type { ProgressEvent } from "../../../app.ts";

/** Does the demo count this as something that happens? Replays are not: they happened before. */
export function isPoint(event: ProgressEvent): boolean {
  switch (event.kind) {
    case "stage_entered":
    case "stage_ended":
    case "step_started":
    case "checkpoint":
    case "effect":
      return true;
    case "step_finished":
      return !event.replayed;
    case "agent":
      return event.event.kind === "tool";
    default:
      return false;
  }
}

/** Where a process died, in words, from the last thing that it told. */
export function placeText(event: ProgressEvent): string {
  switch (event.kind) {
    case "stage_entered":
      return `as ${event.stage} began`;
    case "stage_ended":
      return `as ${event.stage} ended`;
    case "step_started":
      return `as the step ${event.step} began`;
    case "step_finished":
      return `right after the step ${event.step}`;
    case "agent":
      return event.event.kind === "tool" ? `while the agent was at ${event.event.detail}` : "while the agent worked";
    case "checkpoint":
      return `right after checkpoint ${event.checkpoint.sequence}`;
    case "effect":
      return event.what === "intended"
        ? `about to do ${effectOf(event.key)}`
        : `right after ${effectOf(event.key)} was written down`;
    default:
      return "somewhere";
  }
}

/** "push" of "issue-1/pr/push.6". */
function effectOf(key: string): string {
  return (key.split("/").at(-1) ?? key).replace(/\.\d+$/, "");
}
