import { decideByPerson, nextConflictStep } from "../../../core/crunch/debate.ts";
import type { ConflictStep, Ruling } from "../../../core/crunch/debate.ts";
import type { Conflict, ConflictPosition, Resolution } from "../../../core/crunch/conflict.ts";
import { requireSetup, tell, timeOf } from "../work.ts";
import type { CrunchContext } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { takePosition } from "./take-position.ts";
import type { NodeWork } from "./work-node.ts";

/**
 * A conflict from its detection to its resolution: debate, vote, veto, and a person where the rules ask for one. Decided on what was said, in
 * its order, and never on how far the run's own book has got, so that whoever goes on after a crash walks the same way.
 */
export async function settleConflict(given: NodeWork, detected: Conflict): Promise<void> {
  const { context } = given;
  const { settings } = requireSetup(context);
  await tell(context, `${detected.id}:detected`, { kind: "conflict_detected", conflict: detected });
  await context.checkpoint({ trigger: "conflict_start", name: detected.topic.slice(0, 200) });
  let conflict = detected;
  while (conflict.resolution === null) {
    conflict = await stepConflict(given, conflict, nextConflictStep(conflict, settings));
  }
  await context.checkpoint({ trigger: "conflict_resolved", name: detected.topic.slice(0, 200) });
}

async function stepConflict(given: NodeWork, conflict: Conflict, step: ConflictStep): Promise<Conflict> {
  const { context } = given;
  const { id } = conflict;
  switch (step.kind) {
    case "ask_positions": {
      const { round } = step;
      const positions: ConflictPosition[] = [];
      for (const agent of step.agents) {
        const position = await takePosition(given, { conflict, agent, round });
        if (position !== null) positions.push(position);
      }
      await tell(context, `${id}:round-${round}`, { kind: "positions_taken", conflict: id, round, positions });
      return { ...conflict, rounds: [...conflict.rounds, positions] };
    }
    case "resolve":
      return await resolve(context, conflict, step.ruling);
    case "escalate":
      return await escalate(given, conflict, step);
    case "settled":
      return conflict;
  }
}

async function escalate(
  given: NodeWork,
  conflict: Conflict,
  step: Extract<ConflictStep, { readonly kind: "escalate" }>,
): Promise<Conflict> {
  const { context } = given;
  const { settings } = requireSetup(context);
  const { reason, question, options } = step;
  const at = await timeOf(context, `${conflict.id}:escalated-at`);
  const escalation = { reason, question, options, at };
  await tell(context, `${conflict.id}:escalated`, { kind: "conflict_escalated", conflict: conflict.id, escalation });
  const choice = await askPerson(given, {
    key: conflict.id,
    from: "orchestrator",
    type: reason === "high_veto" || reason === "opposed_vetoes" ? "VETO" : "CONFLICT",
    question,
    options,
  });
  const escalated = { ...conflict, escalation };
  return await resolve(context, escalated, decideByPerson(escalated, { choice, by: "user", rules: settings }));
}

async function resolve(context: CrunchContext, conflict: Conflict, ruling: Ruling): Promise<Conflict> {
  const at = await timeOf(context, `${conflict.id}:resolved-at`);
  const resolution: Resolution = { ...ruling, at, knowledge: null };
  await tell(context, `${conflict.id}:resolved`, { kind: "conflict_resolved", conflict: conflict.id, resolution });
  return { ...conflict, resolution };
}
