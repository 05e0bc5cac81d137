import type { ProgressEvent } from "../../../app.ts";

/** A moment at which the demo may kill: what tells it from every other in a run, and where that is in words. */
export interface Point {
  readonly id: string;
  readonly place: string;
}

/** null: nothing that a process could die at. Taken up again, a run passes the same points under the same ids. */
export function pointOf(event: ProgressEvent, visit: number): Point | null {
  switch (event.kind) {
    case "stage_entered":
      return { id: `${event.visit} entered`, place: `as ${event.stage} began` };
    case "stage_ended":
      return { id: `${visit} ended`, place: `as ${event.stage} ended` };
    case "step_started":
      return { id: `${visit} ${event.step} began`, place: `as the step ${event.step} began` };
    case "step_finished":
      return { id: `${visit} ${event.step} finished`, place: `right after the step ${event.step}` };
    case "agent": {
      if (event.event.kind !== "tool") return null;
      const { name, detail } = event.event;
      return { id: `${visit} ${name} ${detail}`, place: `while the agent was editing ${detail}` };
    }
    case "checkpoint": {
      const { trigger, name } = event.checkpoint;
      return { id: `${visit} saved ${trigger} ${name ?? ""}`, place: "right after a checkpoint" };
    }
    case "effect": {
      const what = (event.key.split("/").at(-1) ?? event.key).replace(/\.\d+$/, "");
      return event.what === "intended"
        ? { id: `${event.key} intended`, place: `about to ${DEEDS[what] ?? what}` }
        : { id: `${event.key} settled`, place: `right after the ${what} was written down` };
    }
    default:
      return null;
  }
}

const DEEDS: Readonly<Record<string, string>> = { push: "push", "pull-request": "open the pull request" };

/** What was done to the world, before anybody could write that down: the worst moments to die at. */
export function deedOf(what: string, visit: number): Point {
  return { id: `${visit} ${what}`, place: `when ${what}, before that could be written down` };
}
