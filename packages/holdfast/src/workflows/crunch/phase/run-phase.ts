import { composeTeam } from "../../../core/crunch/compose-team.ts";
import type { GraphPhase } from "../../../core/crunch/graph-template.ts";
import { planPhaseGraph } from "../../../core/crunch/plan-phase-graph.ts";
import type { Team } from "../../../core/crunch/team.ts";
import type { Graph } from "../../../core/graph/graph.ts";
import { runGraph } from "../../../engine/graph/run-graph.ts";
import type { Place } from "../enter-phase.ts";
import { requireSetup, tell } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { COORDINATOR } from "./call-agent.ts";
import { countFailures } from "./count-failures.ts";
import { captureKnowledge, injectKnowledge, planDecisions } from "./keep-knowledge.ts";
import { stoppedOver } from "./merge-batch.ts";
import { resultsIn } from "./node-result.ts";
import type { PhaseWork } from "./phase-work.ts";
import { PHASE_ANSWERS, planPhaseEnd } from "./plan-phase-end.ts";
import type { FailedNode, PhaseEndPlan } from "./plan-phase-end.ts";
import { settleBatch } from "./settle-batch.ts";
import { workNode } from "./work-node.ts";

export type PhaseEnd =
  | {
      readonly kind: "ended";
      /** What was done, for a commit. */
      readonly summary: string;
      /** What is left to say about it after its reason; empty or with what goes before it. */
      readonly remark: string;
      /** Of a phase that judges: what it does not let pass. */
      readonly failing: { readonly reason: string; readonly detail: string } | null;
    }
  | { readonly kind: "given_up"; readonly reason: string };

/** A team at work on the graph of a phase: until every node has ended, what they disagree about is settled and what they learnt is kept. */
export async function runPhase(
  work: CrunchWork,
  context: CrunchContext,
  { phase, place }: { readonly phase: GraphPhase; readonly place: Place },
): Promise<PhaseEnd> {
  const team = await haveTeam(work, context, place.at);
  if (phase === "enrich" || phase === "implementing")
    await injectKnowledge(work, context, { phase, tags: team.domains, at: place.at });
  const given: PhaseWork = { work, context, phase, team, asides: new Map() };
  const graph = context.graph.now() ?? planGraph(context, { phase, team, at: place.at });
  if (graph.nodes.length === 0)
    return { kind: "ended", summary: "", remark: "; nobody had anything to do", failing: null };
  const end = await carryGraph(given, graph);
  await planDecisions(context, phase);
  await captureKnowledge(context, place.at);
  return end;
}

/** Composed when the first phase with a graph is entered, and kept. */
async function haveTeam({ parts }: CrunchWork, context: CrunchContext, at: string): Promise<Team> {
  const { state, position } = context;
  const composedHere = position.visit.steps["team-composed"] !== undefined;
  if (state.team !== null && !composedHere) return state.team;
  const { issue, settings } = requireSetup(context);
  const of = { run: context.run.id, issue: issue.number };
  const priorFailures = await context.step("prior-failures", () => countFailures(parts, of));
  const team = composeTeam({ issue, settings, priorFailures, at });
  await tell(context, "team-composed", { kind: "team_composed", team });
  return context.state.team ?? team;
}

function planGraph(
  context: CrunchContext,
  params: { readonly phase: GraphPhase; readonly team: Team; readonly at: string },
): Graph {
  const { settings, issue } = requireSetup(context);
  const attempt = context.state.phases.filter((stay) => stay.phase === params.phase).length;
  const template = settings.graphs[params.phase];
  return planPhaseGraph({ ...params, template, agents: settings.agents, labels: issue.labels, attempt });
}

async function carryGraph(given: PhaseWork, graph: Graph): Promise<PhaseEnd> {
  const { work, context, phase } = given;
  for (let replays = 0; ; replays += 1) {
    const end = await runGraph(context, {
      graph,
      name: `${phase}-${replays}`,
      limit: work.options.maxParallel,
      // What a batch did to the files is there for the next one.
      barrier: true,
      replayFailed: replays > 0,
      graceMs: GRACE_MS,
      work: (node, scope) => workNode(given, node, scope),
      afterBatch: (batch) => settleBatch(given, batch),
    });
    const now = context.graph.now() ?? graph;
    const limit = work.options.limits.replays;
    const stopped = stoppedOver(context.state.conflicts, phase);
    const plan = planPhaseEnd({ graph: now, end, stopped, checks: phase === "e2e", replays, limit });
    const settled = await settleEnd(given, { plan, graph: now, replays });
    if (settled !== null) return settled;
  }
}

/** null: once more. */
async function settleEnd(
  given: PhaseWork,
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
      const answer = await askPerson(given, { naming, from: COORDINATOR, type: "BLOCKED", question, options });
      if (answer === "stop") return { kind: "given_up", reason: `Stopped by a person: ${question}` };
      return answer === "again" ? null : ended(graph, plan.failed);
    }
  }
}

/** An agent that is out of time is ended by its own clock, which began a little later. */
const GRACE_MS = 60_000;

type Ended = Extract<PhaseEnd, { readonly kind: "ended" }>;

function ended(graph: Graph, failed: readonly FailedNode[]): Ended {
  const summary = resultsIn(graph)
    .map(({ node, result }) => `${node}: ${result.summary}`)
    .join("\n");
  const told = failed.map(({ node, why }) => `${node} failed (${why})`).join("; ");
  return { kind: "ended", summary, remark: told === "" ? "" : `; ${told}`, failing: null };
}
