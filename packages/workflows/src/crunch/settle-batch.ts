// Completes a batch of crunch nodes: merges files, asks the user's questions, and resolves conflicts between agents.

import type { Graph } from "@holdfast/core/graph";
import type { EndedBatch } from "@holdfast/core/run-graph";
import {
  COORDINATOR,
  type PhaseContext,
  type StepNaming,
  askUser,
  callAgent,
  sendMessage,
  takeCheckpoint,
} from "./ask.ts";
import {
  type ConflictOutcome,
  type ConflictStep,
  decideByUser,
  detectConflicts,
  nextConflictStep,
  positionsAfter,
} from "./conflicts.ts";
import type { Conflict, ConflictPosition } from "./messages.ts";
import { isImported } from "./adopt-state.ts";
import { debatePrompt } from "./node-prompt.ts";
import { completedResults } from "./node-result.ts";
import { type CrunchContext, isoNow, requireSetup, recordEvent } from "./phase-steps.ts";
import { parsePosition } from "./reply.ts";
import { mergeBatch } from "./run-node.ts";

/**
 * Completes a batch whose nodes have all ended: merges their changes, asks the user what the agents escalated, and
 * resolves their conflicts.
 */
export async function settleBatch(given: PhaseContext, batch: EndedBatch): Promise<void> {
  const graph = given.context.graph.now();
  if (graph === null) return;
  await mergeBatch(given, graph, batch);
  await settleEscalations(given, graph, batch);
  for (const detected of await findConflicts(given, graph, batch))
    await settleConflict(given, { detected, naming: (part) => batch.name(`${shortId(detected)}-${part}`) });
  await takeCheckpoint(given, "batch_complete", `${given.phase}, batch ${batch.number}`);
}

/** Asks the user about the conflicts of an imported document, which names them without the agents' positions. */
export async function settleImported(given: PhaseContext): Promise<void> {
  const { context } = given;
  if (context.state.adopted === undefined) return;
  const { settings } = requireSetup(context);
  const open = await context.step(
    "imported-conflicts",
    () => context.state.conflicts.filter((one) => one.resolution === null && isImported(one)),
    { title: "listing the imported conflicts" },
  );
  for (const conflict of open) {
    const naming: StepNaming = (part) => `imported-${conflict.id}-${part}`;
    const question = `The imported checkpoint has a conflict that is not resolved: ${conflict.topic}. What was decided, or what applies?`;
    const choice = await askUser(given, { naming, from: COORDINATOR, type: "CONFLICT", question, options: [] });
    await resolve(context, { conflict, naming }, decideByUser(conflict, { choice, by: "user", rules: settings }));
    await takeCheckpoint(given, "conflict_resolved", conflict.topic);
  }
}

/** The conflict id without its time; the hash alone identifies the conflict. */
function shortId({ id }: Conflict): string {
  return `conflict-${id.slice(id.lastIndexOf("-") + 1)}`;
}

/** Detects conflicts once in a step, so that resolutions made since do not change the result. */
async function findConflicts(
  { context, phase, team }: PhaseContext,
  graph: Graph,
  batch: EndedBatch,
): Promise<readonly Conflict[]> {
  return await context.step(batch.name("conflicts"), () => {
    const recommendations = completedResults(graph).flatMap(({ result }) => result.recommendations);
    const known = context.state.conflicts;
    return [...detectConflicts({ recommendations, known, phase, domains: team.domains, at: isoNow(context) })];
  });
}

async function settleEscalations(given: PhaseContext, graph: Graph, batch: EndedBatch): Promise<void> {
  for (const { node: id, result } of completedResults(graph)) {
    if (!batch.nodes.includes(id) || result.escalate === null) continue;
    const naming: StepNaming = (part) => `${result.of}/asks-${part}`;
    // The user answered when the batch ended the first time.
    if (Object.hasOwn(given.context.position.stageAttempt.steps, naming("decided"))) continue;
    const agent = graph.nodes.find((node) => node.id === id)?.agent ?? id;
    const { reason, options } = result.escalate;
    await askUser(given, {
      naming,
      from: agent,
      type: result.status === "BLOCKED" ? "BLOCKED" : "HUMAN_REQUIRED",
      question: `${agent} (${id}) asks: ${reason}`,
      options,
    });
  }
}

/**
 * Takes a conflict from detection to resolution: debate, vote, veto, and the user where the rules require it. It
 * decides from the recorded positions in their order and not from the run's state, so that a resumed run decides the
 * same.
 */
async function settleConflict(
  given: PhaseContext,
  { detected, naming }: { readonly detected: Conflict; readonly naming: StepNaming },
): Promise<void> {
  const { context } = given;
  const { settings } = requireSetup(context);
  await recordEvent(context, naming("detected"), { kind: "conflict_detected", conflict: detected });
  await takeCheckpoint(given, "conflict_start", detected.topic);
  let conflict = detected;
  while (conflict.resolution === null) {
    conflict = await stepConflict(given, { conflict, naming }, nextConflictStep(conflict, settings));
  }
  await takeCheckpoint(given, "conflict_resolved", detected.topic);
}

interface Debate {
  readonly conflict: Conflict;
  readonly naming: StepNaming;
}

async function stepConflict(given: PhaseContext, debate: Debate, step: ConflictStep): Promise<Conflict> {
  const { conflict, naming } = debate;
  const { context } = given;
  const { id } = conflict;
  switch (step.kind) {
    case "ask_positions": {
      const { round } = step;
      const positions: ConflictPosition[] = [];
      for (const agent of step.agents) {
        const position = await askPosition(given, { conflict, agent, round, naming });
        if (position !== null) positions.push(position);
      }
      await recordEvent(context, naming(`round-${round}`), { kind: "positions_taken", conflict: id, round, positions });
      return { ...conflict, rounds: [...conflict.rounds, positions] };
    }
    case "resolve":
      return await resolve(context, debate, step.ruling);
    case "escalate":
      return await escalate(given, debate, step);
    case "settled":
      return conflict;
  }
}

async function escalate(
  given: PhaseContext,
  { conflict, naming }: Debate,
  step: Extract<ConflictStep, { readonly kind: "escalate" }>,
): Promise<Conflict> {
  const { context } = given;
  const { settings } = requireSetup(context);
  const { reason, question, options } = step;
  const { escalation } = await recordEvent(context, naming("escalated"), {
    kind: "conflict_escalated",
    conflict: conflict.id,
    escalation: { reason, question, options, at: isoNow(context) },
  });
  const choice = await askUser(given, {
    naming,
    from: "orchestrator",
    type: reason === "high_veto" || reason === "opposed_vetoes" ? "VETO" : "CONFLICT",
    question,
    options,
  });
  const escalated = { ...conflict, escalation };
  return await resolve(
    context,
    { conflict: escalated, naming },
    decideByUser(escalated, { choice, by: "user", rules: settings }),
  );
}

async function resolve(
  context: CrunchContext,
  { conflict, naming }: Debate,
  ruling: ConflictOutcome,
): Promise<Conflict> {
  const { resolution } = await recordEvent(context, naming("resolved"), {
    kind: "conflict_resolved",
    conflict: conflict.id,
    resolution: { ...ruling, at: isoNow(context), knowledge: null },
  });
  return { ...conflict, resolution };
}

/**
 * Asks an agent for its position in one round. Returns null if the answer is unreadable or the call failed; the agent
 * then keeps its previous position.
 */
async function askPosition(
  given: PhaseContext,
  params: { readonly conflict: Conflict; readonly agent: string; readonly round: number; readonly naming: StepNaming },
): Promise<ConflictPosition | null> {
  const { work, context, phase } = given;
  const { conflict, agent, round } = params;
  const naming: StepNaming = (part) => params.naming(`${round}-${agent}-${part}`);
  const { settings, templates } = requireSetup(context);
  const profile = settings.agents[agent];
  const { report, request } = await callAgent(work, context, {
    naming,
    agent,
    role: `debate-${agent}`,
    action: "resolve_conflict",
    node: null,
    phase,
    priority: "HIGH",
    prompt: (fence) =>
      debatePrompt({
        template: templates.debate,
        about: profile?.about ?? "",
        topic: conflict.topic,
        round,
        positions: positionsAfter(conflict, round - 1),
        fence,
      }),
    timeoutMs: profile?.timeoutMs ?? null,
    attempt: 1,
    outputs: [],
    sideWorktree: null,
  });
  if (report.outcome === "failed") return null;
  const position = parsePosition(report.text, agent);
  const stands = position ?? positionsAfter(conflict, round - 1).find((one) => one.agent === agent);
  if (stands === undefined) return null;
  const { agent: _agent, ...vote } = stands;
  await sendMessage(
    context,
    { name: naming("vote"), from: agent, to: COORDINATOR, answers: request.id, phase, priority: "HIGH" },
    { type: "VOTE", payload: { conflict: conflict.id, round, ...vote } },
  );
  return position;
}
