// The prompts of crunch nodes: what an agent learns about its task, the issue and the team's earlier results.

import { type Graph, type GraphNode, batchesOf } from "@holdfast/core/graph";
import type { Fence } from "@holdfast/core/workflow";
import { commentsText } from "@holdfast/core/findings";
import { issueText } from "../forge.ts";
import { expandTemplate } from "../prompts.ts";
import { truncateStart } from "../text.ts";
import type { PhaseContext } from "./ask.ts";
import type { KnowledgeEntry } from "./knowledge.ts";
import type { MessageLog } from "./message-log.ts";
import type { ConflictPosition, Finding } from "./messages.ts";
import { addedTask, completedResults, isForAgents, taskOfNode } from "./node-result.ts";
import { type CrunchContext, requireSetup } from "./phase-steps.ts";
import { editsFiles } from "./plan-team.ts";
import { positionForm, replyForm } from "./reply.ts";
import { type AgentOutput, type CrunchIssue, type CrunchState, sortOutputs } from "./state.ts";

/** Builds a node's prompt from what is recorded when the node starts. */
export function buildNodePrompt(
  { context, phase, team }: PhaseContext,
  { node, attempt }: { readonly node: GraphNode; readonly attempt: number },
  graph: Graph,
  fence: Fence,
): string {
  const { issue, settings, templates } = requireSetup(context);
  const before = nodesBefore(graph, node.id);
  return nodePrompt({
    template: templates.node,
    node,
    attempt,
    language: team.languages?.[0] ?? null,
    about: settings.agents[node.agent]?.about ?? `You are ${node.agent}, a member of the team.`,
    task: taskOfNode(graph, node),
    isAdded: addedTask(graph, node) !== null,
    phase,
    edits: editsFiles(graph, node),
    issue,
    outputs: context.state.outputs.filter((one) => one.phase !== phase || before.has(one.node)),
    findings: completedResults(graph)
      .filter((one) => before.has(one.node))
      .flatMap(({ node: id, result }) => result.findings.map((finding) => ({ agent: agentOf(graph, id), finding }))),
    broadcasts: earlierBroadcasts(context, { graph, before }),
    answers: answersFromUser(context.state.messages),
    conflicts: context.state.conflicts,
    knowledge: injectedKnowledge(context),
    feedback: context.position.feedback,
    fence,
  });
}

/**
 * The nodes of earlier batches. Nodes that run at the same time do not see each other, so the prompt does not depend on
 * their speed.
 */
function nodesBefore(graph: Graph, node: string): ReadonlySet<string> {
  const batches = batchesOf(graph);
  const own = batches.findIndex((batch) => batch.includes(node));
  return new Set(batches.slice(0, own).flat());
}

/**
 * Broadcasts of other phase attempts come from the message log; those of this attempt come from the preceding nodes.
 */
function earlierBroadcasts(
  { state }: CrunchContext,
  { graph, before }: { readonly graph: Graph; readonly before: ReadonlySet<string> },
): readonly string[] {
  const { phase, attempt } = state.phases.at(-1) ?? {};
  const earlier = state.messages.records.flatMap(({ message }) => {
    if (message.type !== "BROADCAST" || !isForAgents(message.payload.event)) return [];
    const { metadata, payload } = message;
    return metadata.phase === phase && metadata.attempt === attempt ? [] : [payload.message];
  });
  const here = completedResults(graph).flatMap(({ node, result }) =>
    before.has(node) ? (result.broadcasts ?? []) : [],
  );
  return [...earlier, ...here];
}

function agentOf(graph: Graph, id: string): string {
  return graph.nodes.find((node) => node.id === id)?.agent ?? id;
}

function injectedKnowledge({ state }: CrunchContext): readonly KnowledgeEntry[] {
  const injected = new Set(state.knowledge.injected.flatMap(({ entries }) => entries));
  return state.knowledge.entries.filter(({ id }) => injected.has(id));
}

const SECTION_CHARACTERS = 16_000;

/** The prompt of a node: the agent's role, its task, the known results and the form of the answer. */
export function nodePrompt(params: {
  readonly template: string;
  readonly node: Pick<GraphNode, "action" | "outputs">;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** The most frequent language of the repository; null: not known. */
  readonly language: string | null;
  /** Description of the agent. */
  readonly about: string;
  readonly task: string;
  /** Whether another agent requested this node, so that action and task are that agent's words. */
  readonly isAdded: boolean;
  readonly phase: string;
  readonly edits: boolean;
  readonly issue: Pick<CrunchIssue, "number" | "title" | "body" | "labels" | "comments">;
  /** What other agents delivered before. */
  readonly outputs: readonly AgentOutput[];
  /** Findings of other agents, each with its agent. */
  readonly findings: readonly { readonly agent: string; readonly finding: Finding }[];
  /** Broadcasts of other agents. */
  readonly broadcasts: readonly string[];
  /** Questions that the user answered. */
  readonly answers: readonly { readonly question: string; readonly answer: string }[];
  readonly conflicts: CrunchState["conflicts"];
  readonly knowledge: readonly KnowledgeEntry[];
  /** What the previous check reported. */
  readonly feedback: string | null;
  readonly fence: Fence;
}): string {
  const { node, issue, phase, fence } = params;
  const section = sectionIn(fence);
  const delivered = sortOutputs(params.outputs).map(({ phase: when, agent, action, delivered: text = "" }) =>
    section(`What was delivered in ${when} by ${agent}`, "an agent", text === "" ? "" : `${action}\n${text}`),
  );
  return expandTemplate(params.template, {
    about: params.about,
    task_section: params.isAdded
      ? `Task, in the words of another agent: ${fence.data("agents", `${node.action}: ${params.task}`)}`
      : `Task (${node.action}): ${params.task}`,
    deliver_section: node.outputs.length === 0 ? "" : `\n\nDeliver: ${node.outputs.join(", ")}. ${WRITTEN_OUT}`,
    rule: params.edits
      ? "Work in this directory only. Do not commit, push or open a pull request: that is done for you."
      : "Change no file: you only look and answer.",
    issue_no: String(issue.number),
    phase,
    language_note: params.language === null ? "" : ` The repository is mostly ${params.language}.`,
    // Comments have a section of their own, so that long ones do not push out the issue.
    issue_section: [
      section("The issue", "issue", issueText({ ...issue, comments: [] })),
      section("Comments on the issue, oldest first", "comments", commentsText(issue.comments ?? [])),
    ].join(""),
    feedback_section: section("What the check before said, which must be fixed now", "checks", params.feedback ?? ""),
    outputs_section: [
      section("What others of the team delivered", "agents", sortOutputs(params.outputs).map(outputLine).join("\n")),
      ...delivered,
    ].join(""),
    broadcasts_section: section(
      "What they sent to everybody",
      "agents",
      params.broadcasts.map((text) => `- ${text}`).join("\n"),
    ),
    findings_section: section("What they found", "agents", params.findings.map(findingLine).join("\n")),
    answers_section: userAnswers(params.answers, fence),
    decisions_section: section(
      "What was decided where opinions differed, and holds",
      "agents",
      decisions(params.conflicts).join("\n"),
    ),
    knowledge_section: section(
      "What is known from earlier work",
      "earlier work",
      params.knowledge.map(({ id, content }) => `- ${id}: ${content}`).join("\n"),
    ),
    retry_section: params.attempt === 1 ? "" : `\n\n${retryText(node.outputs)}`,
    reply_form: replyForm({ findings: JUDGING_ACTIONS.has(node.action) }),
  });
}

/** The prompt for an agent whose change could not be merged with the others'. */
export function conflictPrompt(params: {
  readonly template: string;
  readonly task: string;
  readonly files: readonly string[];
  readonly diff: string;
  readonly fence: Fence;
}): string {
  const { fence } = params;
  return expandTemplate(params.template, {
    files: fence.data("file names", params.files.join(", ")),
    task: fence.data("task", params.task),
    diff_section: sectionIn(fence)("Your change as it was", "diff", params.diff),
    reply_form: replyForm({ findings: false }),
  });
}

/** The prompt for an agent's position in one round of a debate. */
export function debatePrompt(params: {
  readonly template: string;
  /** Description of the agent. */
  readonly about: string;
  readonly topic: string;
  readonly round: number;
  /** What each agent stands for after the round before. */
  readonly positions: readonly ConflictPosition[];
  readonly fence: Fence;
}): string {
  const { fence } = params;
  const positions = params.positions.map(
    (one) => `- ${one.agent}: ${one.choice} (confidence ${one.confidence}). ${one.rationale}`,
  );
  return expandTemplate(params.template, {
    about: params.about,
    topic: fence.data("agents", params.topic),
    round: String(params.round),
    positions: fence.data("agents", positions.join("\n")),
    position_form: positionForm(),
  });
}

const WRITTEN_OUT =
  "Write it out in your answer, before the JSON that ends it: those who work after you read it there.";

function retryText(outputs: readonly string[]): string {
  const promised = outputs.length === 0 ? "" : ` An answer without ${outputs.join(", ")} counts as failed.`;
  return `An earlier attempt at this task failed.${promised}`;
}

/** The phases decide by the findings of these actions, so their prompts have the form of a finding. */
const JUDGING_ACTIONS: ReadonlySet<string> = new Set([
  "review_code",
  "security_review",
  "audit",
  "validate",
  "threat_model",
  "design_review",
]);

function outputLine({ phase, agent, action, summary }: AgentOutput): string {
  return `- ${phase}, ${agent} (${action}): ${summary}`;
}

function findingLine({ agent, finding }: { readonly agent: string; readonly finding: Finding }): string {
  const { severity, title, location, description, recommendation } = finding;
  const place = location === "" ? "" : ` (${location})`;
  const more = [description, recommendation].filter((part) => part !== "").join(" ");
  return `- ${severity} ${title}${place}, found by ${agent}${more === "" ? "" : `: ${more}`}`;
}

function decisions(conflicts: CrunchState["conflicts"]): readonly string[] {
  return conflicts.flatMap(({ topic, resolution }) => {
    if (resolution === null) return [];
    const conditions = resolution.conditions.length === 0 ? "" : `, provided that ${resolution.conditions.join("; ")}`;
    return [`- ${topic}: ${resolution.choice}${conditions} (${resolution.how})`];
  });
}

function sectionIn(fence: Fence) {
  return (title: string, source: string, content: string): string =>
    content.trim() === ""
      ? ""
      : `\n\n---\n${title}\n\n${fence.data(source, truncateStart(content.trim(), SECTION_CHARACTERS))}`;
}

/** The question is an agent's text and is fenced; the answer comes from the user. */
function userAnswers(answers: readonly { readonly question: string; readonly answer: string }[], fence: Fence): string {
  if (answers.length === 0) return "";
  // Cut before the fence is added: a cut through a fence would leave the agent's words outside.
  const most = Math.floor(SECTION_CHARACTERS / answers.length);
  const lines = answers.map(
    ({ question, answer }) =>
      `- ${fence.data("agents", truncateStart(question, most))}\n  Answer: ${truncateStart(answer, most)}`,
  );
  return `\n\n---\nWhat the user answered, and holds\n\n${lines.join("\n")}`;
}

/**
 * Questions that the user answered, for all agents that work afterwards. Answers about a conflict are left out, because
 * its resolution covers them.
 */
function answersFromUser({ records }: MessageLog): readonly { readonly question: string; readonly answer: string }[] {
  return records.flatMap(({ message, status }) => {
    if (message.type !== "ESCALATE" || status.kind !== "answered") return [];
    const { escalationType, decisionNeeded } = message.payload;
    if (escalationType !== "BLOCKED" && escalationType !== "HUMAN_REQUIRED") return [];
    const answer = records.find((one) => one.message.id === status.by)?.message;
    return answer?.type === "RESPONSE" ? [{ question: decisionNeeded, answer: answer.payload.result.summary }] : [];
  });
}
