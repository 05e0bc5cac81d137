import type { Fence } from "../agent/fence.ts";
import { clip, oneLine } from "./clip.ts";
import type { LoopFinding } from "./finding.ts";
import type { Reflection, Verification } from "./iteration.ts";
import type { RalphOptions } from "./options.ts";
import { ended } from "./reflection-text.ts";
import type { RalphState } from "./state.ts";
import { planUnits } from "./units.ts";
import type { Unit } from "./units.ts";

/**
 * What the agent of an iteration is told. It begins with nothing but the files, so everything it must know is here, each part bounded: the
 * task, the criterion, what the last check said, what is remembered, the best so far, and what goes wrong with the loop as a whole.
 */
export function ralphPrompt(params: {
  readonly options: RalphOptions;
  readonly state: RalphState;
  /** From 1: the position's own. */
  readonly iteration: number;
  readonly fence: Fence;
}): string {
  const { options, state, iteration, fence } = params;
  const units = planUnits(options);
  const unit = units[state.unit];
  if (unit === undefined) return options.task;
  const sections = [
    taskSection(options, unit, { place: state.unit, units: units.length }),
    criterionSection(unit),
    `## Where it stands\n\nThis is iteration ${iteration} of at most ${options.maxIterations}. ${filesNow(state)}`,
    lastSection(state, fence),
    memorySection(state.memory, fence),
    learningsSection(state, fence),
    bestSection(state),
    warningSection(state, fence),
    ANSWER,
  ];
  return sections.filter((section) => section !== null).join("\n\n");
}

const MOST_LAST = 8_000;
const MOST_REFLECTION = 1_500;

const ANSWER = [
  "## When you stop",
  "",
  "Say in a few sentences what you changed and why. What you found out that the next iteration must know goes, one line each, under a heading",
  "`## Learnings`. The checks are run by somebody else: do not report them as passed, and do not weaken them.",
].join("\n");

function taskSection(
  { task, workflowType }: RalphOptions,
  unit: Unit,
  { place, units }: { readonly place: number; readonly units: number },
): string {
  switch (workflowType) {
    case "ralph_loop":
    case "agent_task":
      return `# Task\n\n${unit.instructions}`;
    case "skill_execution":
      return `# Task\n\n${task}\n\n## Skill: ${unit.name}\n\n${unit.instructions}`;
    case "flow_command":
      return `# Task\n\n${task}\n\n## Step ${place + 1} of ${units}: ${unit.name}\n\n${unit.instructions}\n\nDo this step only.`;
  }
}

function criterionSection({ checks }: Unit): string | null {
  if (checks.length === 0) return null;
  const commands = checks.map((check) => `- ${inCode(check.command)}`);
  return ["## It is done when", "", "each of these commands exits with 0:", ...commands].join("\n");
}

function filesNow({ iterations, interventions }: RalphState): string {
  const last = iterations.at(-1);
  const done = interventions.at(-1);
  if (last === undefined) return "Nothing was tried yet.";
  if (done?.kind === "rolled_back" && done.at === last.number)
    return `The files were put back to those of iteration ${done.to}: what came after it is not in them.`;
  return "The files hold what earlier iterations left.";
}

/** What failed in the last iteration. Where a unit begins there is none: the one before it passed. */
function lastSection({ verification, iterations }: RalphState, fence: Fence): string | null {
  const last = iterations.at(-1);
  if (last === undefined || verification?.number !== last.number) return null;
  const failed = verification.checks.filter((check) => !(check.kind === "exited" && check.code === 0));
  if (failed.length === 0) return null;
  const each = Math.floor(MOST_LAST / failed.length);
  const told = failed.map((check) =>
    check.excerpt === ""
      ? ended(check)
      : `${ended(check)}\n\n${fence.data("output of the check", clip(check.excerpt, each))}`,
  );
  return [`## What the check said after iteration ${last.number}`, countsOf(verification), ...told]
    .filter((part) => part !== null)
    .join("\n\n");
}

function countsOf({ metrics }: Verification): string | null {
  const { tests, errors } = metrics;
  const parts = [
    tests === null ? null : `${tests.passed} tests pass, ${tests.failed} fail, ${tests.skipped} were not run`,
    errors === null ? null : `${errors} errors of compilers and linters`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : `${parts.join("; ")}.`;
}

function memorySection(memory: readonly Reflection[], fence: Fence): string | null {
  if (memory.length === 0) return null;
  const told = memory.map(
    (one) => `### Iteration ${one.iteration}\n\n${fence.data("an earlier iteration", clip(one.text, MOST_REFLECTION))}`,
  );
  return ["## What was tried before", ...told].join("\n\n");
}

/** Those of the reflections above are among them, so they stand here alone. */
function learningsSection({ learnings }: RalphState, fence: Fence): string | null {
  if (learnings.length === 0) return null;
  const told = learnings.map((one) => `- ${one.text} (iteration ${one.iteration})`).join("\n");
  return `## What was learnt\n\n${fence.data("earlier iterations", told)}`;
}

function bestSection({ best, iterations, unit }: RalphState): string | null {
  const last = iterations.at(-1);
  if (best === null || last === undefined || best.unit !== unit || best.iteration === last.number) return null;
  const quality = Math.round(best.quality * 10) / 10;
  return `## The best so far\n\nIteration ${best.iteration}, quality ${quality} of 100. The last one was no better.`;
}

function warningSection({ findings, iterations }: RalphState, fence: Fence): string | null {
  const last = iterations.at(-1)?.number;
  const now = findings.filter((one) => one.iteration === last);
  if (now.length === 0) return null;
  return ["## Take care", "", ...now.map((one) => `- ${fence.data("checks", one.sentence)}. ${ADVICE[one.kind]}`)].join(
    "\n",
  );
}

const ADVICE: Readonly<Record<LoopFinding["kind"], string>> = {
  stuck: "What was tried does not work: find out why before you change anything, and try another way.",
  oscillation: "Each change undoes the one before: find what satisfies both.",
  regression: "Look first at what you broke.",
  burn_rate: "Do the one thing that brings it nearest to the criterion.",
};

function inCode(command: string): string {
  const line = oneLine(command, 300);
  return line.includes("`") ? `\`\` ${line} \`\`` : `\`${line}\``;
}
