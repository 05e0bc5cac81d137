import { CRUNCH_SHAPE } from "../../workflows/crunch/workflow-shape.ts";

/** Stages in which the work itself is done and only its end is left; of a workflow of somebody's own nobody knows. */
export function completingStages(workflow: string): ReadonlySet<string> {
  return STAGES[workflow] ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();
const STAGES: Readonly<Record<string, ReadonlySet<string>>> = {
  impl: new Set(["done", "fatal"]),
  crunch: new Set(Object.keys(CRUNCH_SHAPE.ends)),
  ralph: new Set(["publish", "done", "limit", "fatal"]),
};
