// The iterate stage of ralph: the agent's prompt, its call, and what the loop keeps of its answer.

import { maskSecrets } from "@holdfast/core/mask";
import type { StageResult } from "@holdfast/core/transitions";
import type { AgentReport, Fence } from "@holdfast/core/workflow";
import type { ChangedFile } from "@holdfast/core/branch";
import { commitWork } from "../branch.ts";
import { issueText } from "../forge.ts";
import { OUTPUT_DIRECTORY, type Worktree, openWorktree, stageTime, stageHead } from "../worktree.ts";
import { allTemplates, expandTemplate } from "../prompts.ts";
import { clip, oneLine } from "../text.ts";
import {
  type Answer,
  type Artifact,
  type IterationCost,
  type LoopFinding,
  MAX_ARTIFACTS,
  type Reflection,
  type Verification,
} from "./iteration.ts";
import { RALPH_PROMPTS, type RalphOptions, type Unit, planUnits } from "./options.ts";
import { ended } from "./reflection.ts";
import {
  type RalphContext,
  type RalphDependencies,
  type RalphState,
  currentUnit,
  outputFiles,
  recordEvent,
} from "./state.ts";

/**
 * Calls the agent in a new conversation; its prompt contains what it must know of earlier iterations. Commits its
 * changes.
 */
export async function iterateStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const { options } = work;
  const { iteration } = context.position;
  const unit = currentUnit(work, context);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const before = await stageHead(context, worktree.branch);
  const { issue } = context.inputs;
  const prompt = iteratePrompt(options, context);
  // The prompt refers to this file, and the agent may have removed it.
  if (issue !== null) await worktree.outputs.write(outputFiles.issue(issue.number), issueText(issue));
  // Once the agent has answered, the state has changed and the original prompt cannot be rebuilt.
  if (context.state.answer?.number !== iteration) await worktree.outputs.write(outputFiles.prompt(iteration), prompt);

  const report = await context.agent({
    name: "agent",
    title: "the agent works",
    role: "iterate",
    prompt,
    continuation: allTemplates(RALPH_PROMPTS, context.state.templates).continue,
    model: options.model,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
    env: {
      HOLDFAST_UNIT: unit.name,
      HOLDFAST_UNTIL: unit.checks.map(({ command }) => command).join(" && "),
      HOLDFAST_MAX_ITERATIONS: String(options.maxIterations),
      ...(issue === null ? {} : { HOLDFAST_ISSUE: String(issue.number) }),
    },
  });
  const { head } = await commitWork(context, worktree, {
    step: "commit",
    message: messageOf({ iteration, task: issue === null ? options.task : `#${issue.number} ${issue.title}`, report }),
    before,
    at,
  });
  const changed = await filesChanged(context, worktree, { before, head });
  const answer = readAnswer({
    number: iteration,
    unit: context.state.unit,
    units: planUnits(options),
    report,
    filesChanged: changed.files,
    tree: changed.tree,
    artifacts: changed.artifacts,
  });
  await recordEvent(context, { kind: "answered", answer });
  return { event: "iterated", reason: reasonOf(iteration, report, changed.files), feedback: null };
}

async function filesChanged(
  context: RalphContext,
  { branch }: Worktree,
  { before, head }: { readonly before: string; readonly head: string },
): Promise<{ readonly files: number; readonly tree: string; readonly artifacts: readonly Artifact[] }> {
  return await context.step(
    "changed",
    async () => {
      const exclude = [OUTPUT_DIRECTORY];
      const files = await branch.changedSince({ from: before, exclude });
      const { began } = context.state;
      const all = began === null ? files : await branch.changedSince({ from: began, exclude });
      return {
        files: files.length,
        tree: await branch.treeOf(head),
        artifacts: all.slice(0, MAX_ARTIFACTS).map(artifactOf),
      };
    },
    { title: "listing the changed files" },
  );
}

function artifactOf({ path, status, digest }: ChangedFile): Artifact {
  if (status === "deleted") return { path, digest, status };
  return { path, digest, status: status === "added" || status === "renamed" ? "created" : "modified" };
}

const SUBJECT = 72;

function messageOf(params: {
  readonly iteration: number;
  readonly task: string;
  readonly report: AgentReport;
}): string {
  // Git and its readers end a commit message at a NUL.
  const clean = (text: string): string => text.replaceAll("\0", "").toWellFormed().trim();
  const subject = clean(params.task).replaceAll(/\s+/g, " ");
  const cut = subject.length > SUBJECT ? `${subject.slice(0, SUBJECT).toWellFormed()}…` : subject;
  const text = clean(params.report.text).slice(0, 2000).toWellFormed();
  return `Iteration ${params.iteration}: ${cut}\n${text === "" ? "" : `\n${text}\n`}`;
}

function reasonOf(iteration: number, report: AgentReport, files: number): string {
  const changed = files === 0 ? "no file changed" : files === 1 ? "1 file changed" : `${files} files changed`;
  if (report.outcome === "completed") return `Iteration ${iteration}: ${changed}`;
  return `Iteration ${iteration}: the agent failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}; ${changed}`;
}

/**
 * Builds the whole prompt of an iteration. Feedback from outside an iteration (the first check, a refused push, a
 * rollback) comes last, because no other section contains it.
 */
function iteratePrompt(
  options: RalphOptions,
  { position, state, inputs, fence: fenceOf }: Pick<RalphContext, "position" | "state" | "inputs" | "fence">,
): string {
  const { issue } = inputs;
  const fence = fenceOf("agent");
  const whole =
    issue === null
      ? ""
      : `\n\n${fence.data("issue", issueText(issue).trimEnd())}\n(Also in ${outputFiles.issue(issue.number)}.)`;
  const extended = { ...options, task: `${options.task}${whole}` };
  const { iteration, feedback } = position;
  return fence.prompt(ralphPrompt({ options: extended, state, iteration, feedback, fence }));
}

/**
 * Fills the template. The agent starts with only the files, so each section is complete and bounded:
 * task, criterion, last check, memory, learnings, best iteration and warnings.
 */
export function ralphPrompt(params: {
  readonly options: RalphOptions;
  readonly state: RalphState;
  /** The position's iteration number, starting at 1. */
  readonly iteration: number;
  readonly feedback: string | null;
  readonly fence: Fence;
}): string {
  const { options, state, iteration, feedback, fence } = params;
  const units = planUnits(options);
  const unit = units[state.unit];
  if (unit === undefined) return options.task;
  const after = (section: string | null): string => (section === null ? "" : `\n\n${section}`);
  return expandTemplate(allTemplates(RALPH_PROMPTS, state.templates).iterate, {
    task_section: taskSection(options, unit, { place: state.unit, units: units.length }),
    criterion_section: after(criterionSection(unit)),
    iteration: String(iteration),
    max_iterations: String(options.maxIterations),
    files_now: filesNow(state),
    last_check_section: after(lastSection(state, fence)),
    memory_section: after(memorySection(state.memory, fence)),
    learnings_section: after(learningsSection(state, fence)),
    best_section: after(bestSection(state)),
    warning_section: after(warningSection(state, fence)),
    feedback_section: after(feedback === null ? null : `## What came before\n\n${fence.data("checks", feedback)}`),
  });
}

const MOST_LAST = 8_000;
const MOST_REFLECTION = 1_500;

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

/** What failed in the last iteration. There is nothing when a unit starts, because the previous unit passed. */
function lastSection({ verification, iterations }: RalphState, fence: Fence): string | null {
  const last = iterations.at(-1);
  if (last === undefined || verification?.number !== last.number) return null;
  const failed = verification.checks.filter((check) => !(check.kind === "exited" && check.code === 0));
  if (failed.length === 0) return null;
  const each = Math.floor(MOST_LAST / failed.length);
  const parts = failed.map((check) =>
    check.excerpt === ""
      ? ended(check)
      : `${ended(check)}\n\n${fence.data("output of the check", clip(check.excerpt, each))}`,
  );
  return [`## What the check said after iteration ${last.number}`, countsOf(verification), ...parts]
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
  const parts = memory.map(
    (one) => `### Iteration ${one.iteration}\n\n${fence.data("an earlier iteration", clip(one.text, MOST_REFLECTION))}`,
  );
  return ["## What was tried before", ...parts].join("\n\n");
}

/** Includes the learnings of the reflections above, whose texts therefore do not repeat them. */
function learningsSection({ learnings }: RalphState, fence: Fence): string | null {
  if (learnings.length === 0) return null;
  const lines = learnings.map((one) => `- ${one.text} (iteration ${one.iteration})`).join("\n");
  return `## What was learned\n\n${fence.data("earlier iterations", lines)}`;
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

const MOST_SAID = 2_000;

/** Extracts what the loop keeps of an agent's answer. `report` comes from the engine; the caller supplies the rest. */
export function readAnswer(params: {
  readonly number: number;
  readonly unit: number;
  readonly units: readonly Unit[];
  readonly report: {
    readonly outcome: Answer["outcome"];
    readonly cause: string | null;
    readonly message: string | null;
    readonly text: string;
    readonly milliseconds: number;
    readonly tools?: readonly string[];
    readonly usage: {
      readonly inputTokens: number | null;
      readonly outputTokens: number | null;
      readonly microUsd: number | null;
    };
  };
  readonly filesChanged: number | null;
  readonly tree: string | null;
  readonly artifacts?: readonly Artifact[];
}): Answer {
  const { number, unit, units, report, filesChanged, tree, artifacts = [] } = params;
  const { learnings, rest } = readLearnings(report.text);
  return {
    number,
    unit,
    unitName: units[unit]?.name ?? "",
    outcome: report.outcome,
    cause: report.cause,
    failure: report.outcome === "completed" ? "" : clip(maskSecrets(report.message ?? ""), MOST_SAID),
    said: clip(maskSecrets(rest), MOST_SAID),
    learnings: learnings.map((one) => maskSecrets(one)),
    spent: spentOf(report.usage),
    milliseconds: Math.max(0, Math.round(report.milliseconds)),
    filesChanged,
    tree,
    artifacts,
    tools: report.tools ?? [],
  };
}

function spentOf(usage: Parameters<typeof readAnswer>[0]["report"]["usage"]): IterationCost {
  const { inputTokens, outputTokens, microUsd } = usage;
  const silent = inputTokens === null && outputTokens === null;
  return { tokens: silent ? null : (inputTokens ?? 0) + (outputTokens ?? 0), microUsd };
}

const MOST_LEARNINGS = 10;
const MOST_LEARNING = 300;
const MOST_TEXT = 200_000;

/**
 * Splits an answer into learnings and the rest. Learnings are the lines of a fenced block named "learnings", or of a
 * section headed "Learnings" or "Lessons learned". A wrapped line belongs to the bullet above it. Nothing else counts,
 * in particular no heading inside a code block.
 */
export function readLearnings(answer: string): { readonly learnings: readonly string[]; readonly rest: string } {
  const found: string[] = [];
  const rest: string[] = [];
  let place: LearningsPlace = OUTSIDE;
  for (const line of answer.slice(-MOST_TEXT).split("\n")) {
    const { next, mark } = step(place, line);
    if (isLearning(place) && !mark) take(found, line);
    // The heading that ends a section belongs to the rest; the line that closes a block belongs to neither.
    if (!isLearning(next) && place.fence?.learnings !== true) rest.push(line);
    place = next;
  }
  const learnings = found.map((text) => oneLine(text, MOST_LEARNING)).filter((text) => text !== "");
  return { learnings: [...new Set(learnings)].slice(0, MOST_LEARNINGS), rest: rest.join("\n").trim() };
}

interface LearningsPlace {
  /** Level of the heading that starts a learnings section; null outside of one. */
  readonly section: number | null;
  readonly fence: { readonly ticks: number; readonly learnings: boolean } | null;
}

const OUTSIDE: LearningsPlace = { section: null, fence: null };

function isLearning({ section, fence }: LearningsPlace): boolean {
  return section !== null || fence?.learnings === true;
}

/** Returns the place of the next line, and whether this line is only a marker. */
function step(place: LearningsPlace, line: string): { readonly next: LearningsPlace; readonly mark: boolean } {
  const [, ticks = "", name = ""] = /^\s{0,3}(`{3,40})\s{0,3}([^`]{0,40})$/.exec(line) ?? [];
  if (place.fence !== null) {
    const closed = ticks.length >= place.fence.ticks && name.trim() === "";
    return closed ? { next: { ...place, fence: null }, mark: true } : { next: place, mark: false };
  }
  if (ticks !== "") {
    const learnings = /^learnings?$/i.test(name.trim());
    return { next: { ...place, fence: { ticks: ticks.length, learnings } }, mark: true };
  }
  const [, marks, title = ""] = /^(#{1,6})\s{1,10}(.{1,200})$/.exec(line) ?? [];
  if (marks === undefined) return { next: place, mark: false };
  if (TITLE.test(title)) return { next: { section: marks.length, fence: null }, mark: true };
  const below = place.section !== null && marks.length > place.section;
  return { next: below ? place : OUTSIDE, mark: true };
}

const TITLE = /^(?:learnings?|lessons? learn(?:ed|t))\s{0,5}:?\s{0,10}$/i;

function take(found: string[], line: string): void {
  const text = line.slice(0, 2_000);
  const [, bullet] = /^\s{0,20}(?:[-*+•]|\d{1,3}[.)])\s{1,10}(.{1,2000})$/.exec(text) ?? [];
  // A continuation line of a wrapped bullet.
  const isContinued = bullet === undefined && (found.at(-1) ?? "") !== "" && /^\s{2,20}\S/.test(text);
  if (isContinued) found.push(`${found.pop() ?? ""} ${text.trim()}`);
  else found.push(bullet ?? text.trim());
}
