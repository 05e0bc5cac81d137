// Runs one attempt of a crunch node, and merges the files of a finished batch from its side worktrees.

import type { Graph, GraphNode } from "@holdfast/core/graph";
import { sha256 } from "@holdfast/core/json";
import type { EndedBatch, NodeOutcome, NodeScope } from "@holdfast/core/run-graph";
import type { AgentReport, SideWorktree } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { oneLine } from "../text.ts";
import { type PhaseContext, type StepNaming, askUser, callAgent, takeCheckpoint } from "./ask.ts";
import type { Conflict, Resolution } from "./messages.ts";
import { buildNodePrompt, conflictPrompt } from "./node-prompt.ts";
import {
  type NodeResult,
  abortReason,
  addNodes,
  answerRequest,
  completedResults,
  recordReply,
  resultOf,
  summaryOf,
  taskOfNode,
} from "./node-result.ts";
import { type CrunchContext, isoNow, recordEvent, requireSetup } from "./phase-steps.ts";
import type { Phase } from "./phases.ts";
import { editsFiles } from "./plan-team.ts";
import { type AgentReply, parseReply, proseOf } from "./reply.ts";
import type { TaskStatus } from "./team.ts";

/** Runs one attempt of a node: sends the request, calls the agent, and records the reply. */
export async function runNodeAttempt(given: PhaseContext, node: GraphNode, scope: NodeScope): Promise<NodeOutcome> {
  const { work, context, phase } = given;
  const graph = requireGraph(context);
  const aborted = abortReason(graph) ?? mergeAbortReason(context.state.conflicts, phase);
  if (aborted !== null) return { kind: "failed", error: aborted, retryable: false };
  await moveTask(given, { node, name: scope.name("active"), status: "active" });
  const sideWorktree = editsFiles(graph, node) ? await context.sideWorktree(scope.name("side-worktree")) : null;
  if (sideWorktree !== null) given.sideWorktrees.set(sideWorktree.name, sideWorktree);
  const { report, request } = await callAgent(work, context, {
    naming: (part) => scope.name(part),
    agent: node.agent,
    role: node.id,
    action: node.action,
    node: node.id,
    phase,
    priority: PRIORITY[node.priority],
    prompt: (fence) => buildNodePrompt(given, { node, attempt: scope.attempt }, graph, fence),
    timeoutMs: node.timeoutMs,
    attempt: scope.attempt,
    outputs: node.outputs,
    sideWorktree,
  });
  const reply = report.outcome === "completed" ? parseReply(report.text) : null;
  if (reply !== null) await recordReply(given, { node, scope, request, reply, report });
  // An agent that aborts the phase is not retried; its abort takes effect.
  const aborts = reply?.broadcasts.some(({ event }) => event === "ABORT") ?? false;
  const root = sideWorktree?.root ?? context.workspace?.root;
  const missing = reply === null || aborts ? null : await missingOutput(given, { node, scope, reply, report, root });
  if (reply === null || missing !== null || (reply.status === "FAILED" && !aborts)) {
    if (sideWorktree !== null) await context.dropSideWorktree(sideWorktree);
    await moveTask(given, { node, name: scope.name("moved"), status: "failed" });
    return missing ?? failure(report, reply);
  }
  // A failed attempt adds no nodes, because the next attempt requests them again.
  const further = await addNodes(given, { node, scope, reply });
  await deliver(given, { node, scope, text: report.text, reply: { ...reply, summary: summaryOf(reply, further) } });
  await moveTask(given, { node, name: scope.name("moved"), status: "completed" });
  await takeCheckpoint(given, "agent_complete", `${node.agent}: ${node.id}`);
  const held =
    sideWorktree === null || report.commit === null ? null : { name: sideWorktree.name, commit: report.commit };
  return { kind: "complete", result: resultOf({ node, reply, of: scope.name(), sideWorktree: held, further }) };
}

/**
 * The failure of a node that promised an output and delivered neither text nor a file. An agent that hands the task over
 * or is blocked has said why.
 */
async function missingOutput(
  { work, context }: PhaseContext,
  params: {
    readonly node: GraphNode;
    readonly scope: NodeScope;
    readonly reply: AgentReply;
    readonly report: AgentReport;
    /** Where the agent worked. */
    readonly root: string | undefined;
  },
): Promise<NodeOutcome | null> {
  const { node, scope, reply, report, root } = params;
  const isOther = reply.status === "FAILED" || reply.status === "BLOCKED" || reply.handoff !== null;
  if (node.outputs.length === 0 || isOther || proseOf(report.text) !== "") return null;
  const found = await context.step(scope.name("output-file"), async () => {
    const outputs = root === undefined ? null : work.adapters.outputs(root);
    for (const path of reply.outputs.slice(0, 10)) {
      const text = (await outputs?.read(path).catch(nothingAt)) ?? null;
      if (text !== null && text.trim() !== "") return true;
    }
    return false;
  });
  if (found) return null;
  const error = `It delivered none of: ${node.outputs.join(", ")}. It answered: ${oneLine(reply.summary, 200)}`;
  return { kind: "failed", error, retryable: true };
}

/** The path is an agent's text and may not be one. */
function nothingAt(error: unknown): null {
  if (error instanceof HoldfastError) return null;
  throw error;
}

function failure({ cause, message }: AgentReport, reply: AgentReply | null): NodeOutcome {
  if (reply !== null) return { kind: "failed", error: reply.summary, retryable: true };
  if (cause === "timeout") return { kind: "timeout" };
  return { kind: "failed", error: `${cause ?? "failed"}: ${message ?? "it said nothing"}`, retryable: true };
}

async function moveTask(
  { context, phase }: PhaseContext,
  params: { readonly node: GraphNode; readonly name: string; readonly status: TaskStatus },
): Promise<void> {
  const { node, name, status } = params;
  await recordEvent(context, name, {
    kind: "task_moved",
    task: `${phase}/${node.id}`,
    agent: node.agent,
    phase,
    status,
  });
}

async function deliver(
  { context, phase }: PhaseContext,
  params: {
    readonly node: GraphNode;
    readonly scope: NodeScope;
    readonly reply: AgentReply;
    readonly text: string;
  },
): Promise<void> {
  const { node, scope, reply } = params;
  const delivered = node.outputs.length === 0 ? "" : proseOf(params.text);
  const { agent, action, id } = node;
  const output = { agent, action, node: id, phase, completedAt: isoNow(context), summary: reply.summary };
  await recordEvent(context, scope.name("delivered"), {
    kind: "output_delivered",
    output: { ...output, location: reply.outputs[0] ?? null, ...(delivered === "" ? {} : { delivered }) },
  });
}

const PRIORITY = { critical: "CRITICAL", high: "HIGH", normal: "NORMAL", low: "LOW" } as const;

function requireGraph({ graph }: CrunchContext): Graph {
  const now = graph.now();
  if (now === null) throw new TypeError("a node works and there is no graph");
  return now;
}

type Held = NonNullable<NodeResult["sideWorktree"]>;

/**
 * Merges the file changes of a batch in the order of the definition, independent of which node finished first. A batch
 * ends again after a retried node; changes that were already merged remain merged.
 */
export async function mergeBatch(given: PhaseContext, graph: Graph, batch: EndedBatch): Promise<void> {
  for (const { node: id, result } of completedResults(graph)) {
    const node = graph.nodes.find((one) => one.id === id);
    if (!batch.nodes.includes(id) || result.sideWorktree === null || node === undefined) continue;
    const naming: StepNaming = (part) => `${result.of}/${part}`;
    if (isSettled(given, naming)) continue;
    await mergeNode(given, { node, task: taskOfNode(graph, node), held: result.sideWorktree, naming });
  }
}

/** Decides from recorded steps only, of this process or an earlier one. */
function isSettled({ context }: PhaseContext, naming: StepNaming): boolean {
  return Object.hasOwn(context.position.stageAttempt.steps, naming(SETTLED));
}

const SETTLED = "settled";

interface Merging {
  readonly node: GraphNode;
  readonly task: string;
  readonly held: Held;
  readonly naming: StepNaming;
}

async function mergeNode(given: PhaseContext, merging: Merging): Promise<void> {
  const { context } = given;
  const { held, naming } = merging;
  const sideWorktree = given.sideWorktrees.get(held.name) ?? (await context.sideWorktree(held.name));
  const merged = await context.mergeSideWorktree(naming("merge"), { sideWorktree, commit: held.commit });
  if (merged.kind === "conflict")
    await resolveMergeConflict(given, merging, { sideWorktree, files: merged.files, detail: merged.detail });
  await context.step(naming(SETTLED), () => true);
}

/** Records a merge conflict and lets the agent redo its change once. If that fails, the user decides. */
async function resolveMergeConflict(
  given: PhaseContext,
  { node, task, naming }: Merging,
  params: { readonly sideWorktree: SideWorktree; readonly files: readonly string[]; readonly detail: string },
): Promise<void> {
  const { work, context, phase } = given;
  const { files, sideWorktree } = params;
  const { conflict } = await recordEvent(context, naming("conflict"), {
    kind: "conflict_detected",
    conflict: mergeConflict({ node, files, phase, at: isoNow(context) }),
  });
  await takeCheckpoint(given, "conflict_start", conflict.topic);
  const { templates } = requireSetup(context);
  const fresh = await context.sideWorktree(naming("fix-in-side-worktree"));
  const { report, request } = await callAgent(work, context, {
    naming: (part) => naming(`fix-${part}`),
    agent: node.agent,
    role: `fix-${node.id}`,
    action: "resolve_conflict",
    node: node.id,
    phase,
    priority: "HIGH",
    prompt: (fence) => conflictPrompt({ template: templates.conflict, task, files, diff: params.detail, fence }),
    timeoutMs: node.timeoutMs,
    attempt: 1,
    outputs: [],
    sideWorktree: fresh,
  });
  // No other agent can make this change, so a handover does not count.
  const reply = report.outcome === "completed" ? { ...parseReply(report.text), handoff: null } : null;
  if (reply !== null)
    await answerRequest(given, { name: naming("fix-answer"), agent: node.agent, request, reply, report });
  const gaveUp = reply === null || reply.status === "FAILED" || reply.status === "BLOCKED";
  const again =
    gaveUp || report.commit === null
      ? null
      : await context.mergeSideWorktree(naming("fix-merge"), { sideWorktree: fresh, commit: report.commit });
  await context.dropSideWorktree(sideWorktree);
  // An agent that changed no file has not redone its change; accepting that would lose the change silently.
  if (again?.kind === "merged" && again.files.length > 0)
    return await resolve(given, conflict, { how: "agreement", choice: KEEP_BOTH, by: node.agent, naming });
  if (again?.kind !== "merged") await context.dropSideWorktree(fresh);
  const question = `The change of ${node.agent} (${node.id}) conflicts with the others' in ${files.join(", ")}, and the conflict could not be resolved. Leave it out, or stop?`;
  const answer = await askUser(given, {
    naming,
    from: node.agent,
    type: "CONFLICT",
    question,
    options: [LEFT_OUT, STOP],
  });
  await resolve(given, conflict, { how: "person", choice: answer, by: "user", naming });
}

const KEEP_BOTH = "keep both changes";
const LEFT_OUT = "leave it out";
const STOP = "stop";

/** Why the user stopped the phase because of a merge conflict; null if they did not. */
export function mergeAbortReason(conflicts: readonly Conflict[], phase: Phase): string | null {
  const over = conflicts.find(
    (conflict) =>
      conflict.phase === phase && conflict.choices.includes(LEFT_OUT) && conflict.resolution?.choice === STOP,
  );
  return over === undefined ? null : `Stopped by the user over ${over.topic}`;
}

async function resolve(
  given: PhaseContext,
  conflict: Conflict,
  params: {
    readonly how: Resolution["how"];
    readonly choice: string;
    readonly by: string;
    readonly naming: StepNaming;
  },
): Promise<void> {
  const { how, choice, by, naming } = params;
  const { context } = given;
  const resolution: Resolution = {
    how,
    choice,
    winner: by,
    reasoning: how === "person" ? "the user decided" : "the change was made again on top of the others'",
    conditions: [],
    scores: [],
    vetoApplied: false,
    userOverride: false,
    dissent: [],
    at: isoNow(context),
    knowledge: null,
  };
  await recordEvent(context, naming("resolved"), { kind: "conflict_resolved", conflict: conflict.id, resolution });
  await takeCheckpoint(given, "conflict_resolved", conflict.topic);
}

function mergeConflict(params: {
  readonly node: GraphNode;
  readonly files: readonly string[];
  readonly phase: PhaseContext["phase"];
  readonly at: string;
}): Conflict {
  const { node, files, phase, at } = params;
  const hash = sha256(JSON.stringify([node.id, files])).slice(0, 8);
  return {
    id: `CONF-${at.slice(0, 19).replaceAll(/[-:]/g, "")}-${hash}`,
    topic: `the changes to ${files.join(", ")} of ${node.id} and of others`,
    phase,
    detectedAt: at,
    domains: [],
    participants: [node.agent],
    choices: [KEEP_BOTH, LEFT_OUT],
    recommendations: [],
    rounds: [],
    escalation: null,
    resolution: null,
  };
}
