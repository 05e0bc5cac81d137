import { decideByPerson, nextConflictStep } from "../../../core/crunch/debate.ts";
import type { ConflictStep, Ruling } from "../../../core/crunch/debate.ts";
import type { Conflict, ConflictPosition } from "../../../core/crunch/conflict.ts";
import { isoNow, requireSetup, tell } from "../work.ts";
import type { CrunchContext } from "../work.ts";
import { askPerson } from "./ask-person.ts";
import { takePosition } from "./take-position.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { Naming, PhaseWork } from "./phase-work.ts";

/**
 * A conflict from its detection to its resolution: debate, vote, veto, and a person where the rules ask for one. Decided on what was said, in
 * its order, and never on how far the run's own book has got, so that whoever goes on after a crash walks the same way.
 */
export async function settleConflict(
  given: PhaseWork,
  { detected, naming }: { readonly detected: Conflict; readonly naming: Naming },
): Promise<void> {
  const { context } = given;
  const { settings } = requireSetup(context);
  await tell(context, naming("detected"), { kind: "conflict_detected", conflict: detected });
  await takeCheckpoint(given, "conflict_start", detected.topic);
  let conflict = detected;
  while (conflict.resolution === null) {
    conflict = await stepConflict(given, { conflict, naming }, nextConflictStep(conflict, settings));
  }
  await takeCheckpoint(given, "conflict_resolved", detected.topic);
}

interface Debate {
  readonly conflict: Conflict;
  readonly naming: Naming;
}

async function stepConflict(given: PhaseWork, debate: Debate, step: ConflictStep): Promise<Conflict> {
  const { conflict, naming } = debate;
  const { context } = given;
  const { id } = conflict;
  switch (step.kind) {
    case "ask_positions": {
      const { round } = step;
      const positions: ConflictPosition[] = [];
      for (const agent of step.agents) {
        const position = await takePosition(given, { conflict, agent, round, naming });
        if (position !== null) positions.push(position);
      }
      await tell(context, naming(`round-${round}`), { kind: "positions_taken", conflict: id, round, positions });
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
  given: PhaseWork,
  { conflict, naming }: Debate,
  step: Extract<ConflictStep, { readonly kind: "escalate" }>,
): Promise<Conflict> {
  const { context } = given;
  const { settings } = requireSetup(context);
  const { reason, question, options } = step;
  const { escalation } = await tell(context, naming("escalated"), {
    kind: "conflict_escalated",
    conflict: conflict.id,
    escalation: { reason, question, options, at: isoNow(context) },
  });
  const choice = await askPerson(given, {
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
    decideByPerson(escalated, { choice, by: "user", rules: settings }),
  );
}

async function resolve(context: CrunchContext, { conflict, naming }: Debate, ruling: Ruling): Promise<Conflict> {
  const { resolution } = await tell(context, naming("resolved"), {
    kind: "conflict_resolved",
    conflict: conflict.id,
    resolution: { ...ruling, at: isoNow(context), knowledge: null },
  });
  return { ...conflict, resolution };
}
