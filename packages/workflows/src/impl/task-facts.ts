// The facts that prompts of impl name: instructions, title form, template, gate, acceptance criteria, earlier failures, and
// for the reviewer the checks and the claims of the summary. Text of others is fenced.

import { splitAgent } from "@holdfast/core/agent";
import type { Fence } from "@holdfast/core/workflow";
import { inCode } from "../pull-request-text.ts";
import { NO_FACTS, type RepositoryFacts } from "../repository-facts.ts";
import { oneLine, truncateStart } from "../text.ts";
import { type ImplState, NO_ISSUE } from "./state.ts";

export interface TaskFacts {
  /** `provider:model` of the implementer; null: unknown. */
  readonly agent: string | null;
  /** The configured gate command. */
  readonly gate: string | null;
  readonly state: Pick<ImplState, "issue" | "repository" | "gate" | "history">;
}

const OUTPUT_CHARACTERS = 2_000;

/** What the repository and the run so far say about the task; "" if nothing is known. */
export function factsSection({ agent, gate, state }: TaskFacts, fence: Fence): string {
  const facts = state.repository ?? NO_FACTS;
  const instructions = filesToRead(facts.instructions, agent);
  const criteria = acceptanceCriteria(state.issue?.body ?? "");
  const failures = earlierFailures(state.history);
  const lines = [
    ...(instructions.length === 0 ? [] : [`- Its conventions are in ${instructions.join(", ")}. Read them first.`]),
    ...(gate === null
      ? []
      : [
          `- Your change must pass this command, which is run for you: ${fence.data("gate", gate)}${lastRun(state.gate, fence)}`,
        ]),
    ...(facts.testCommand === null || facts.testCommand === gate
      ? []
      : [`- The usual test command of this repository: ${inCode(facts.testCommand)}`]),
    ...(criteria === null
      ? []
      : [`- Acceptance criteria in the issue; each must hold:\n${fence.data("acceptance criteria", criteria)}`]),
    ...(facts.titles.examples.length === 0
      ? []
      : [`- Titles in the history look like this:\n${fence.data("history", facts.titles.examples.join("\n"))}`]),
    ...(facts.template === null
      ? []
      : [
          `- Write the body below the headings of this template:\n${fence.data("pull request template", facts.template.text.trim())}`,
        ]),
    ...(failures === null ? [] : [`- What failed before:\n${fence.data("checks and reviews", failures)}`]),
  ];
  return lines.length === 0 ? "" : `What is known about this repository and the task\n${lines.join("\n")}\n\n`;
}

/** A failed run's output is in the feedback already. */
function lastRun(gate: ImplState["gate"], fence: Fence): string {
  if (gate === undefined) return "";
  if (!gate.passed) return ` (it failed in iteration ${gate.iteration})`;
  const output = gate.output.trim();
  const shown = output === "" ? "" : `:\n${fence.data("gate output", truncateStart(output, OUTPUT_CHARACTERS))}`;
  return ` (it passed in iteration ${gate.iteration})${shown}`;
}

/**
 * Which of the files every supported version of an agent loads by itself. Some load CLAUDE.md only if there is no
 * AGENTS.md. A file that only newer versions load is named too: a second reading costs less than none.
 */
const LOADED: Readonly<Record<string, "agents" | "claude" | "both" | "first">> = {
  claude: "claude",
  codex: "agents",
  copilot: "both",
  opencode: "first",
  pi: "first",
};

/** The instruction files that the agent does not load by itself. An unknown agent gets all of them named. */
export function filesToRead(instructions: readonly string[], agent: string | null): readonly string[] {
  const provider = agent === null ? "" : splitAgent(agent).provider;
  const loaded = Object.hasOwn(LOADED, provider) ? LOADED[provider] : undefined;
  const hasAgents = instructions.some((path) => /^agents\.md$/i.test(path));
  return instructions.filter((path) => {
    if (/^agents\.md$/i.test(path)) return loaded === undefined || loaded === "claude";
    if (/^claude\.md$/i.test(path))
      return loaded === undefined || loaded === "agents" || (loaded === "first" && hasAgents);
    return true;
  });
}

const CRITERIA_CHARACTERS = 4_000;

/** The section with the acceptance criteria, else every item of a checklist; null: there is neither. */
export function acceptanceCriteria(body: string): string | null {
  const lines = body.replaceAll("\r\n", "\n").split("\n");
  const start = lines.findIndex((line) => /^#{1,6}\s+.{0,40}(?:acceptance|definition of done)/i.test(line));
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^#{1,6}\s/.test(line));
  const section = start === -1 ? [] : rest.slice(0, end === -1 ? rest.length : end);
  const items = section.some((line) => line.trim() !== "")
    ? section
    : lines.filter((line) => /^\s*[-*+]\s+\[[ xX]\]\s/.test(line));
  const text = items.join("\n").trim();
  return text === "" ? null : text.slice(0, CRITERIA_CHARACTERS).toWellFormed();
}

const SHOWN_FAILURES = 5;

/** The newest failure is the reason for this iteration and part of the prompt anyway. */
function earlierFailures(history: ImplState["history"]): string | null {
  const failed = history.filter(({ result }) => result !== "success").slice(0, -1);
  if (failed.length === 0) return null;
  return failed
    .slice(-SHOWN_FAILURES)
    .map(({ iteration, stage, reason }) => `iteration ${iteration}, ${stage}: ${oneLine(reason, 300)}`)
    .join("\n");
}

/** How the first line of the finalize file must look. */
export function titleForm(facts: RepositoryFacts | undefined, issue: number, tags: readonly string[]): string {
  const form = facts?.titles.form ?? "numbered";
  // Without an issue there is no number to write.
  switch (form === "numbered" && issue === NO_ISSUE ? "tagged" : form) {
    case "conventional":
      return "`type(scope): brief description`";
    case "tagged":
      return "`[tag] Brief description`";
    case "plain":
      return "`Brief description`";
    case "numbered":
      return `\`[tag][#${issue}] Brief description\`. Tags: ${tags.join(", ")}`;
  }
}

const TEST_FILE = /(?:^|[/._-])(?:tests?|specs?|__tests__)(?:[/._-]|$)|_test\.|\.test\./i;
const SUMMARY_CHARACTERS = 8_000;

/** What the reviewer checks the diff against: the gate's result, the changed tests and the implementer's summary. */
export function reviewFacts(
  state: Pick<ImplState, "gate" | "finalize">,
  changed: readonly string[],
  fence: Fence,
): { readonly checks: string; readonly summary: string } {
  const { gate, finalize } = state;
  const summary = [finalize?.title ?? "", finalize?.body ?? ""].join("\n\n").trim();
  const tests = changed.filter((path) => TEST_FILE.test(path));
  const claims = /\btest(?:s|ed|ing)?\b/i.test(summary);
  const ran =
    gate === undefined
      ? "No gate command is configured, so Holdfast ran no test."
      : `The gate command ${fence.data("gate", gate.command)} ${gate.passed ? "passed" : "failed"} in iteration ${gate.iteration}${
          gate.rebased === true ? ", before the branch was rebased" : ""
        }. The end of its output:\n${fence.data("gate output", truncateStart(gate.output.trim(), OUTPUT_CHARACTERS))}`;
  const touched =
    tests.length > 0
      ? `The diff changes these test files:\n${fence.data("file names", tests.slice(0, 50).join("\n"))}`
      : claims
        ? "The summary speaks of tests, but the diff changes no test file."
        : "The diff changes no test file.";
  return {
    checks: `${ran}\n${touched}`,
    summary: summary === "" ? "(none)" : fence.data("summary", summary.slice(0, SUMMARY_CHARACTERS).toWellFormed()),
  };
}
