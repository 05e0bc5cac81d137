// Runs the graph of a crunch phase with its team, decides how the phase ends, and passes knowledge between runs.

import type { Adapters } from "@holdfast/core/adapters";
import type { Graph, NodeState } from "@holdfast/core/graph";
import { stateOf } from "@holdfast/core/graph-state";
import { type Json, isJsonObject } from "@holdfast/core/json";
import { type GraphEnd, runGraph } from "@holdfast/core/run-graph";
import { COORDINATOR, type PhaseContext, askUser } from "./ask.ts";
import { type KnowledgeEntry, type PendingCapture, injectedEntries, selectKnowledge } from "./knowledge.ts";
import type { Finding, Message } from "./messages.ts";
import { awaitingMessages, pendingMessages } from "./message-log.ts";
import { abortReason, completedResults, importedResult } from "./node-result.ts";
import { type CrunchContext, type CrunchDependencies, type Place, requireSetup, recordEvent } from "./phase-steps.ts";
import type { Phase } from "./phases.ts";
import { composeTeam, detectLanguages, editsFiles, planPhaseGraph } from "./plan-team.ts";
import { mergeAbortReason, runNodeAttempt } from "./run-node.ts";
import type { GraphPhase } from "./settings.ts";
import { settleBatch, settleImported } from "./settle-batch.ts";
import { type AgentOutput, parseCrunchState } from "./state.ts";
import type { Team } from "./team.ts";

type PhaseEnd =
  | {
      readonly kind: "ended";
      /** What the team did, for the commit message. */
      readonly summary: string;
      /** Appended to the phase's reason; empty, or a text that begins with its separator. */
      readonly remark: string;
      /** For a phase that checks the work: what it rejects. */
      readonly failing: { readonly reason: string; readonly detail: string } | null;
    }
  | { readonly kind: "given_up"; readonly reason: string };

/** Runs a phase's graph until every node has ended, its conflicts are resolved and its knowledge is captured. */
export async function runPhase(
  work: CrunchDependencies,
  context: CrunchContext,
  { phase, place }: { readonly phase: GraphPhase; readonly place: Place },
): Promise<PhaseEnd> {
  const team = await haveTeam(work, context, place.at);
  if (phase === "enrich" || phase === "implementing")
    await injectKnowledge(work, context, { phase, tags: team.domains, at: place.at });
  const given: PhaseContext = { work, context, phase, team, sideWorktrees: new Map() };
  await deliverImported(context);
  await settleImported(given);
  const graph = await useImported(context, () => planGraph(context, { phase, team, at: place.at }));
  if (graph.nodes.length === 0)
    return { kind: "ended", summary: "", remark: "; no agent had anything to do", failing: null };
  const end = await executeGraph(given, graph);
  await planDecisions(context, phase);
  await captureKnowledge(context, place.at);
  return end;
}

/** Composes the team when the first phase with a graph starts, and keeps it. */
async function haveTeam({ adapters }: CrunchDependencies, context: CrunchContext, at: string): Promise<Team> {
  const { state, position } = context;
  const composedHere = position.stageAttempt.steps["team-composed"] !== undefined;
  if (state.team !== null && !composedHere) return state.team;
  const { issue, settings, base } = requireSetup(context);
  const of = { run: context.run.id, issue: issue.number };
  const priorFailures = await context.step("prior-failures", () => countFailures(adapters, of), {
    title: "counting earlier failures",
  });
  const languages = await context.step(
    "languages",
    async () => [...detectLanguages((await adapters.workspaces?.filesOf(base.commit)) ?? [])],
    { title: "detecting the languages" },
  );
  const team = composeTeam({ issue, settings, languages, priorFailures, at });
  await recordEvent(context, "team-composed", { kind: "team_composed", team });
  return context.state.team ?? team;
}

/**
 * Delivers the messages of an imported document. Requests and questions without an answer are withdrawn: the phase asks
 * again.
 */
async function deliverImported(context: CrunchContext): Promise<void> {
  const { messages, adopted } = context.state;
  if (adopted === undefined) return;
  const left = await context.step(
    "imported-messages",
    () => {
      const isQuestion = ({ type }: Message): boolean => type === "REQUEST" || type === "ESCALATE";
      const pending = pendingMessages(messages);
      const asked = [...pending.filter(isQuestion), ...awaitingMessages(messages)];
      return { deliver: idsOf(pending.filter((one) => !isQuestion(one))), withdraw: idsOf(asked) };
    },
    { title: "sorting the imported messages" },
  );
  for (const id of left.deliver) await recordEvent(context, `delivered:${id}`, { kind: "message_delivered", id });
  const why = "The session that asked has ended; the phase asks again";
  for (const id of left.withdraw) await recordEvent(context, `withdrawn:${id}`, { kind: "message_withdrawn", id, why });
}

function idsOf(messages: readonly Message[]): readonly string[] {
  return messages.map(({ id }) => id);
}

/**
 * Returns the graph of the run, or a new one in which the nodes are complete whose output an imported document has. For
 * a node that edits files, the output must be here.
 */
async function useImported(context: CrunchContext, plan: () => Graph): Promise<Graph> {
  const graph = context.graph.now() ?? plan();
  if (context.state.adopted === undefined) return graph;
  const used = await context.step(
    "imported-outputs",
    () => (context.graph.now() === null ? importedOutputs(context, graph) : []),
    { title: "matching the imported outputs" },
  );
  const states: Record<string, NodeState> = {};
  for (const output of used) {
    const { node, completedAt: at } = output;
    await recordEvent(context, `imported:${node}`, { kind: "output_delivered", output });
    const result = importedResult(node, output.summary);
    states[node] = { status: "complete", attempt: 1, startedAt: at, endedAt: at, result };
  }
  return context.graph.now() ?? { ...graph, states };
}

function importedOutputs({ state }: CrunchContext, graph: Graph): AgentOutput[] {
  const imported = state.outputs.filter(({ node, phase }) => node === "" && phase === graph.meta["phase"]);
  return graph.nodes.flatMap((node) => {
    const output = imported.find(({ agent, action }) => agent === node.agent && action === node.action);
    const isHere = output?.delivered !== undefined || !editsFiles(graph, node);
    return output === undefined || !isHere ? [] : [{ ...output, node: node.id }];
  });
}

function planGraph(
  context: CrunchContext,
  params: { readonly phase: GraphPhase; readonly team: Team; readonly at: string },
): Graph {
  const { settings, issue } = requireSetup(context);
  const attempt = context.state.phases.filter((one) => one.phase === params.phase).length;
  const template = settings.graphs[params.phase];
  return planPhaseGraph({ ...params, template, agents: settings.agents, labels: issue.labels, attempt });
}

async function executeGraph(given: PhaseContext, graph: Graph): Promise<PhaseEnd> {
  const { work, context, phase } = given;
  for (let replays = 0; ; replays += 1) {
    const end = await runGraph(context, {
      graph,
      name: `${phase}-${replays}`,
      limit: work.options.maxParallel,
      // The files of a batch must be merged before the next one starts.
      barrier: true,
      replayFailed: replays > 0,
      graceMs: GRACE_MS,
      work: (node, scope) => runNodeAttempt(given, node, scope),
      afterBatch: (batch) => settleBatch(given, batch),
    });
    const now = context.graph.now() ?? graph;
    const limit = work.options.limits.replays;
    const stopped = mergeAbortReason(context.state.conflicts, phase);
    const plan = planPhaseEnd({ graph: now, end, stopped, checks: phase === "e2e", replays, limit });
    const settled = await settleEnd(given, { plan, graph: now, replays });
    if (settled !== null) return settled;
  }
}

/** Returns null if the graph must run again. */
async function settleEnd(
  given: PhaseContext,
  { plan, graph, replays }: { readonly plan: PhaseEndPlan; readonly graph: Graph; readonly replays: number },
): Promise<PhaseEnd | null> {
  switch (plan.kind) {
    case "ended":
      return ended(graph, plan.failed);
    case "aborted":
      return { kind: "given_up", reason: plan.reason };
    case "sent_back":
      return { ...ended(graph, []), failing: { reason: plan.reason, detail: plan.detail } };
    case "replay":
      return null;
    case "ask": {
      const { question } = plan;
      const naming = (part: string): string => `graph:${given.phase}-${replays}/${part}`;
      const options = [...PHASE_ANSWERS];
      const answer = await askUser(given, { naming, from: COORDINATOR, type: "BLOCKED", question, options });
      if (answer === "stop") return { kind: "given_up", reason: `Stopped by the user: ${question}` };
      return answer === "again" ? null : ended(graph, plan.failed);
    }
  }
}

/** The agent has its own timeout, which starts slightly later than the node's. */
const GRACE_MS = 60_000;

type Ended = Extract<PhaseEnd, { readonly kind: "ended" }>;

function ended(graph: Graph, failed: readonly FailedNode[]): Ended {
  const summary = completedResults(graph)
    .map(({ node, result }) => `${node}: ${result.summary}`)
    .join("\n");
  const failures = failed.map(({ node, why }) => `${node} failed (${why})`).join("; ");
  return { kind: "ended", summary, remark: failures === "" ? "" : `; ${failures}`, failing: null };
}

type PhaseEndPlan =
  /** `failed`: nodes that failed but are not essential. */
  | { readonly kind: "ended"; readonly failed: readonly FailedNode[] }
  /** An agent or the user ended the phase. */
  | { readonly kind: "aborted"; readonly reason: string }
  | { readonly kind: "replay" }
  /** The check failed, so the work goes back to implementation. */
  | { readonly kind: "sent_back"; readonly reason: string; readonly detail: string }
  /** The user decides how the run continues, possibly without the failed nodes. */
  | { readonly kind: "ask"; readonly question: string; readonly failed: readonly FailedNode[] };

interface FailedNode {
  readonly node: string;
  readonly why: string;
}

/**
 * Decides what the end of a graph means. Any failure in a checking phase sends the work back. Elsewhere failed nodes
 * run again up to the limit. After that, low-priority failures are accepted, and the user decides about the rest: a
 * critical or high-priority node, or a whole batch.
 */
export function planPhaseEnd(params: {
  readonly graph: Graph;
  readonly end: GraphEnd;
  /** Why the user stopped the phase; null if they did not. */
  readonly stopped: string | null;
  /** Whether the phase checks the work of another one. */
  readonly checks: boolean;
  /** How often the failed nodes have run again. */
  readonly replays: number;
  readonly limit: number;
}): PhaseEndPlan {
  const { graph, end, checks } = params;
  const aborted = abortReason(graph) ?? params.stopped;
  if (aborted !== null) return { kind: "aborted", reason: aborted };
  const failed = failedNodes(graph);
  const grave = checks ? graveFindings(graph) : [];
  if (checks && (failed.length > 0 || grave.length > 0)) return sentBack(failed, grave);
  if (end.kind !== "failed") return { kind: "ended", failed: [] };
  const halted = end.abortedBy !== null || end.batch !== null;
  if (!halted && params.replays < params.limit) return { kind: "replay" };
  // A light node may fail. A heavy one that was skipped because of it was not done either.
  const undone = [...failed.map(({ node }) => node), ...skippedNodes(graph)];
  if (!halted && !undone.some((node) => HEAVY.has(priorityOf(graph, node)))) return { kind: "ended", failed };
  const question = `${whatStopped(end)}: ${failuresText(failed)}. Try it again, continue without it, or stop?`;
  return { kind: "ask", question, failed };
}

const HEAVY: ReadonlySet<string> = new Set(["critical", "high"]);

const PHASE_ANSWERS = ["again", "continue", "stop"] as const;

function whatStopped({ abortedBy, batch }: Extract<GraphEnd, { readonly kind: "failed" }>): string {
  if (abortedBy !== null) return `${abortedBy} failed, and nothing can be done without it`;
  return batch === null ? "This failed" : `All of batch ${batch} failed`;
}

function failuresText(failed: readonly FailedNode[]): string {
  return failed.map(({ node, why }) => `${node} (${why})`).join("; ");
}

function sentBack(failed: readonly FailedNode[], grave: readonly Finding[]): PhaseEndPlan {
  const reasons = [
    ...failed.map(({ node, why }) => `${node} failed: ${why}`),
    ...grave.map(({ severity, title, location }) => `${severity} ${title}${location === "" ? "" : ` (${location})`}`),
  ];
  const details = grave.map(({ title, description, recommendation }) =>
    [`${title}:`, description, recommendation].filter((part) => part !== "").join(" "),
  );
  return { kind: "sent_back", reason: reasons.join("; "), detail: [...reasons, ...details].join("\n") };
}

function failedNodes(graph: Graph): readonly FailedNode[] {
  return graph.nodes.flatMap(({ id }) => {
    const { status, result } = stateOf(graph, id);
    return status === "failed" ? [{ node: id, why: errorOf(result) }] : [];
  });
}

function skippedNodes(graph: Graph): readonly string[] {
  return graph.nodes.flatMap(({ id }) => (stateOf(graph, id).status === "skipped" ? [id] : []));
}

function errorOf(result: Json): string {
  const error = isJsonObject(result) ? (result["error"] ?? null) : result;
  return typeof error === "string" ? error : JSON.stringify(error);
}

function graveFindings(graph: Graph): readonly Finding[] {
  return completedResults(graph).flatMap(({ result }) =>
    result.findings.filter(({ severity }) => severity === "CRITICAL" || severity === "HIGH"),
  );
}

function priorityOf(graph: Graph, id: string): string {
  return graph.nodes.find((node) => node.id === id)?.priority ?? "normal";
}

/** Counts earlier runs of the issue, of any workflow, that failed by themselves. An aborted run does not count. */
async function countFailures(
  { store }: Pick<Adapters, "store">,
  { run, issue }: { readonly run: string; readonly issue: number },
): Promise<number> {
  const runs = await store.listRuns();
  return runs.filter(
    ({ id, work, state }) => id !== run && work.kind === "issue" && work.number === issue && state.kind === "failed",
  ).length;
}

const MAX_ENTRIES = 20;
const MAX_CHARACTERS = 12_000;

/** Passes matching knowledge of earlier runs to a phase's team, once. An empty result is fine. */
async function injectKnowledge(
  { adapters }: CrunchDependencies,
  context: CrunchContext,
  params: { readonly phase: Phase; readonly tags: readonly string[]; readonly at: string },
): Promise<void> {
  const { phase, at, tags } = params;
  const { issue } = requireSetup(context);
  const entries = await context.step(
    "knowledge",
    async () => {
      const injected = injectedEntries(context.state.knowledge);
      const known = await earlierKnowledge(adapters, context.run.id);
      const select = { entries: known, tags, issue: issue.number, injected, at };
      return [...selectKnowledge({ ...select, maxEntries: MAX_ENTRIES, maxCharacters: MAX_CHARACTERS })];
    },
    { title: "selecting what earlier runs learned" },
  );
  await recordEvent(context, "knowledge-injected", { kind: "knowledge_injected", phase, entries, at });
}

/** Captures everything that this phase planned, each once. What an import names without its content stays pending. */
async function captureKnowledge(context: CrunchContext, at: string): Promise<void> {
  const names = await context.step(
    "captures",
    () => context.state.knowledge.pending.flatMap(({ name, content }) => (content === "" ? [] : [name])),
    { title: "listing what was learned" },
  );
  for (const name of names) await recordEvent(context, `captured:${name}`, { kind: "knowledge_captured", name, at });
}

/** Plans to capture how this phase's conflicts were resolved. */
async function planDecisions(context: CrunchContext, phase: Phase): Promise<void> {
  const { issue } = requireSetup(context);
  const decisions = await context.step("decisions", () => decisionsOf(context, phase), {
    title: "listing the decisions",
  });
  for (const { name, content } of decisions) {
    const capture: PendingCapture = {
      name,
      type: "decision",
      content,
      tags: context.state.team?.domains ?? [],
      source: { type: "issue", ref: `#${issue.number}`, phase },
      issue: issue.number,
    };
    await recordEvent(context, `planned:${name}`, { kind: "capture_planned", capture });
  }
}

/** Captures the result of the whole run. */
export async function captureResolution(context: CrunchContext, at: string): Promise<void> {
  const { issue } = requireSetup(context);
  const name = `resolution/${issue.number}`;
  const done = context.state.outputs.map(({ agent, summary }) => `${agent}: ${summary}`);
  const capture: PendingCapture = {
    name,
    type: "resolution",
    content: [`Issue #${issue.number}, ${issue.title}: ${context.position.reason ?? "done"}`, ...done].join("\n"),
    tags: context.state.team?.domains ?? [],
    source: { type: "issue", ref: `#${issue.number}`, phase: "done" },
    issue: issue.number,
  };
  await recordEvent(context, "resolution-planned", { kind: "capture_planned", capture });
  await recordEvent(context, "resolution-kept", { kind: "knowledge_captured", name, at });
}

function decisionsOf(
  { state }: CrunchContext,
  phase: Phase,
): readonly { readonly name: string; readonly content: string }[] {
  return state.conflicts
    .filter((conflict) => conflict.phase === phase)
    .flatMap(({ id, topic, resolution }) => {
      if (resolution === null) return [];
      const content = `${topic}: ${resolution.choice}. ${resolution.reasoning}`;
      return [{ name: `decision/${id}`, content }];
    });
}

/** Knowledge of every other crunch run in this repository. Skips runs that cannot be read. */
async function earlierKnowledge({ store }: Adapters, own: string): Promise<readonly KnowledgeEntry[]> {
  const entries = new Map<string, KnowledgeEntry>();
  for (const run of await store.listRuns({ workflow: "crunch" })) {
    if (run.id === own) continue;
    try {
      const latest = await store.latest(run.id);
      if (latest === undefined) continue;
      for (const entry of parseCrunchState(latest.planes.context.values).knowledge.entries)
        entries.set(entry.id, entry);
    } catch {
      // The run is damaged or of another version. `holdfast verify` reports it, and this run can continue.
    }
  }
  return [...entries.values()];
}
