import type { Check, RalphOptions } from "./options.ts";

/** A piece of work: an agent is told `instructions` again and again until all of `checks` say yes, `attempts` times at most. */
export interface Unit {
  readonly name: string;
  readonly instructions: string;
  /** Empty: the agent's own "completed" is all there is. */
  readonly checks: readonly Check[];
  /** null: as often as maxIterations allows. */
  readonly attempts: number | null;
}

/** What the run is made of, in order; never empty. All that differs between the types of workflow is here. */
export function planUnits(options: RalphOptions): readonly Unit[] {
  const { workflowType, task, until, steps, skill, attempts } = options;
  switch (workflowType) {
    case "ralph_loop":
      return [{ name: "loop", instructions: task, checks: until, attempts: null }];
    case "agent_task":
      return [{ name: "task", instructions: task, checks: until, attempts }];
    case "skill_execution":
      return [{ name: skill?.name ?? "skill", instructions: skillText(options), checks: until, attempts }];
    case "flow_command":
      // The criterion of the whole flow is the last step's too: only there can it hold.
      return steps.map((step, place) => ({
        name: step.name,
        instructions: step.prompt,
        checks: place === steps.length - 1 ? [...step.until, ...until] : step.until,
        attempts,
      }));
  }
}

const PLACE = "$ARGUMENTS";

function skillText({ skill, task }: RalphOptions): string {
  if (skill === null) return task;
  if (skill.text.includes(PLACE)) return skill.text.replaceAll(PLACE, () => skill.arguments);
  return skill.arguments === "" ? skill.text : `${skill.text}\n\nArguments: ${skill.arguments}`;
}
