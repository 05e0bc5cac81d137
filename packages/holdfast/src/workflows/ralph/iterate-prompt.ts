import { ralphPrompt } from "../../core/ralph/prompt.ts";
import { issueText } from "../issue-text.ts";
import type { LoopOptions } from "./options.ts";
import { outputFiles } from "./output-files.ts";
import type { LoopContext } from "./work.ts";

/** All that one turn is told. What led to it and was no iteration (the first check, a refused push, a rollback) comes last: nothing else in it says so. */
export function iteratePrompt(
  options: LoopOptions,
  { position, state, inputs, fence: fenceOf }: Pick<LoopContext, "position" | "state" | "inputs" | "fence">,
): string {
  const { issue } = inputs;
  const fence = fenceOf("agent");
  const whole =
    issue === null
      ? ""
      : `\n\n${fence.data("issue", issueText(issue).trimEnd())}\n(Also in ${outputFiles.issue(issue.number)}.)`;
  const told = { ...options, task: `${options.task}${whole}` };
  const prompt = ralphPrompt({ options: told, state, iteration: position.iteration, fence });
  const before =
    position.feedback === null ? "" : `\n\n## What came before\n\n${fence.data("checks", position.feedback)}`;
  return fence.prompt(`${prompt}${before}\n`);
}
