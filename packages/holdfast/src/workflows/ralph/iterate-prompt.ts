import type { Unit } from "../../core/ralph/units.ts";
import { iterationText } from "./iteration-text.ts";
import type { LoopOptions } from "./options.ts";
import { outputFiles } from "./output-files.ts";
import type { LoopContext } from "./work.ts";

/** All that one turn is told: the task, when it is done, how far it is, and what the turns before taught. */
export function iteratePrompt(params: {
  readonly options: LoopOptions;
  readonly unit: Unit;
  readonly context: Pick<LoopContext, "position" | "state" | "inputs">;
}): string {
  const { options, unit, context } = params;
  const { position, state, inputs } = context;
  const { issue } = inputs;
  const task =
    issue === null
      ? unit.instructions.trim()
      : `${unit.instructions.trim()}\n\nIssue #${issue.number}: ${issue.title} (the whole text is in ${outputFiles.issue(issue.number)})\n\n${issue.body.trim()}`;
  return [
    `# Iteration ${position.iteration} of at most ${options.maxIterations}`,
    "",
    task,
    ...section(
      "It is done when",
      unit.checks.map(({ command }) => `- \`${command}\` succeeds`),
    ),
    ...section("Where it stands", standing(params)),
    ...section("What did not work", position.feedback === null ? [] : [position.feedback]),
    ...section(
      "What earlier iterations were like",
      state.memory.map(({ text }) => `- ${text}`),
    ),
    ...section(
      "What was learnt",
      state.learnings.map(({ text }) => `- ${text}`),
    ),
    ...section(
      "Warnings",
      state.findings
        .filter(({ iteration }) => iteration === state.iterations.at(-1)?.number)
        .map(({ sentence }) => `- ${sentence}`),
    ),
    ...section("How to work", RULES),
    "",
  ].join("\n");
}

const RULES = [
  "- Work on the files here. They are as the last iteration left them, and what you change is kept and committed for you.",
  "- Whether it is done is decided by the commands above alone: do not weaken them, the tests or the checks.",
  "- You will not remember this turn. What the next one should know, write as lines that begin with `LEARNED:` at the end of your answer.",
];

function standing({ context, unit }: Parameters<typeof iteratePrompt>[0]): readonly string[] {
  const { state } = context;
  const last = state.iterations.at(-1);
  if (last === undefined || state.verification === null) return [];
  if (last.unitName !== unit.name) return [`${last.unitName} is done. This is the next step: ${unit.name}.`];
  const { position } = context;
  const failed = state.verification.checks.filter(({ kind, code }) => kind !== "exited" || code !== 0);
  return [
    `${iterationText(last)}.`,
    ...failed.flatMap(({ command, excerpt }, index) => [
      "",
      `\`${command}\` said (whole: ${outputFiles.check(position.iteration - 1, index + 1)}):`,
      "```",
      excerpt.trim(),
      "```",
    ]),
  ];
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines];
}
