import type { LoopOptions } from "./options.ts";
import { iterationText } from "./iteration-text.ts";
import type { LoopState } from "./state.ts";

/** The course of a loop for people, as it ended. */
export function loopReport(params: {
  readonly state: LoopState;
  readonly reason: string;
  readonly options: Pick<LoopOptions, "task" | "until">;
}): string {
  const { state, reason, options } = params;
  return [
    `# ${state.loopId ?? "A loop"}`,
    "",
    `${reason}.`,
    "",
    `Task: ${options.task}`,
    ...options.until.map(({ command }) => `Until: \`${command}\``),
    ...section(
      "Iterations",
      state.iterations.map((one) => `- ${iterationText(one)}`),
    ),
    ...section(
      "What was found",
      state.findings.map(({ sentence }) => `- ${sentence}`),
    ),
    ...section(
      "What was learnt",
      state.learnings.map(({ iteration, text }) => `- ${text} (iteration ${iteration})`),
    ),
    "",
  ].join("\n");
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines];
}
