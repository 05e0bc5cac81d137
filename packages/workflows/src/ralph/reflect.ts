// The reflect stage of ralph: records what an iteration achieved and decides how the loop continues.

import type { StageResult } from "@holdfast/core/transitions";
import { bestFilesNote, iterationText } from "./finish.ts";
import type { LoopFinding } from "./iteration.ts";
import { type RalphOptions, planUnits } from "./options.ts";
import { planReflection } from "./reflection.ts";
import { type RalphContext, type RalphDependencies, type RalphState, recordEvent, reduceRalph } from "./state.ts";

/** Records the reflection on an iteration and decides what follows. The checkpoint at its end is the iteration's. */
export async function reflectStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const { options } = work;
  // Reflection and decision are one step. If the stage runs again, after a crash or a question, both remain the same
  // whatever was recorded or raised meanwhile.
  const { reflected, move } = await context.step(
    "reflection",
    () => {
      const { state, position } = context;
      const event = planReflection({ options, state, budget: position.budget });
      const { milliseconds } = position.budget.spent;
      return { reflected: event, move: decideNext({ options, state: reduceRalph(state, event), milliseconds }) };
    },
    { title: "deciding what follows" },
  );
  await recordEvent(context, reflected);
  const { quality } = reflected.iteration;
  const result = await follow(context, move);
  return { ...result, trigger: "iteration", ...(quality === null ? {} : { score: quality }) };
}

async function follow(context: RalphContext, move: NextMove): Promise<StageResult<RalphState>> {
  const { state } = context;
  const last = state.iterations.at(-1);
  const came = last === undefined ? "" : iterationText(last);
  switch (move.kind) {
    case "iterate":
      return { event: "again", reason: `${move.reason}. ${came}` };
    case "done":
      return { event: "criterion_met", reason: move.reason };
    case "limit":
      return { event: "limit_reached", reason: `${move.reason}. ${bestFilesNote(state)}` };
    case "exhausted":
      return { event: "stuck", reason: `${move.reason}. ${bestFilesNote(state)}` };
    case "stuck":
      return { event: "stuck", reason: `${move.reason}. ${bestFilesNote(state)}` };
    case "rollback":
      return { event: "goes_back", reason: move.reason };
    case "ask":
      return await ask(context, move);
  }
}

/**
 * Waits for the user's answer. It counts as an intervention, so that the same iterations do not stop the loop again.
 */
async function ask(
  context: RalphContext,
  move: Extract<NextMove, { readonly kind: "ask" }>,
): Promise<StageResult<RalphState>> {
  const { state, position } = context;
  const back = state.best !== null && state.best.iteration !== state.iterations.at(-1)?.number ? ["rollback"] : [];
  const best = back.length === 0 ? "" : ` The best so far is iteration ${state.best?.iteration}.`;
  const answer = await context.decide({
    name: "stuck",
    question: `${move.reason}.${best} Continue, ${back.length === 0 ? "" : "go back to the best iteration and continue there, "}or stop?`,
    options: ["continue", ...back, "stop"],
  });
  if (answer === "stop")
    return { event: "stuck", reason: `Stopped by the user: ${move.reason}. ${bestFilesNote(state)}` };
  if (answer === "rollback")
    return { event: "goes_back", reason: `${move.reason}; the user sends it back to the best iteration` };
  await recordEvent(context, {
    kind: "intervened",
    intervention: { kind: "answered", at: position.iteration, answer },
  });
  return { event: "again", reason: `The user lets it continue: ${move.reason}` };
}

/**
 * What follows a reflection:
 * - limit: a limit of the options is reached, which a resume may raise.
 * - exhausted: the unit's attempts are used up.
 * - ask: the user decides whether the loop continues.
 * - rollback: the files of `to` are restored, then the loop continues.
 */
export type NextMove =
  | { readonly kind: "iterate"; readonly reason: string }
  | { readonly kind: "done"; readonly reason: string }
  | { readonly kind: "limit"; readonly reason: string }
  | { readonly kind: "exhausted"; readonly reason: string }
  | { readonly kind: "stuck"; readonly reason: string; readonly finding: LoopFinding }
  | { readonly kind: "ask"; readonly reason: string; readonly finding: LoopFinding }
  | {
      readonly kind: "rollback";
      readonly reason: string;
      readonly finding: LoopFinding;
      readonly to: { readonly iteration: number; readonly tree: string };
    };

/**
 * Decides the next move; pure. Call it after `reflected` is reduced, and again when a run resumes with other options: a
 * limit that still applies still stops the loop. Done is checked first, so that a criterion that passes at the last
 * allowed iteration is not reported as a limit.
 */
export function decideNext(params: {
  readonly options: RalphOptions;
  readonly state: RalphState;
  /** Working time so far. */
  readonly milliseconds: number;
}): NextMove {
  const { options, state, milliseconds } = params;
  const units = planUnits(options);
  const unit = units[state.unit];
  if (unit === undefined) return { kind: "done", reason: doneReason(state, units.length) };
  const last = state.iterations.at(-1)?.number ?? 0;
  if (last >= options.maxIterations)
    return {
      kind: "limit",
      reason: `${count(last, "iteration", "iterations")}, which is the limit, and the criterion still fails`,
    };
  if (options.maxMinutes !== null && milliseconds >= options.maxMinutes * 60_000)
    return { kind: "limit", reason: `${options.maxMinutes} minutes of work, which is the limit` };
  const halt = haltOf(params);
  if (halt !== null) return halt;
  if (unit.attempts !== null && state.tries >= unit.attempts)
    return { kind: "exhausted", reason: `${unit.name} did not succeed in ${count(state.tries, "try", "tries")}` };
  return { kind: "iterate", reason: iterateReason(state, unit.name) };
}

/** Stuck and oscillation stop a loop; regression and burn rate only warn. */
function haltOf({ options, state }: Parameters<typeof decideNext>[0]): NextMove | null {
  const last = state.iterations.at(-1)?.number ?? 0;
  if (state.interventions.some((one) => one.at >= last)) return null;
  const finding = state.findings.find(
    (one) => one.iteration === last && (one.kind === "stuck" || one.kind === "oscillation"),
  );
  if (finding === undefined) return null;
  const reason = finding.sentence;
  switch (options.onStuck) {
    case "stop":
      return { kind: "stuck", reason, finding };
    case "ask":
      return { kind: "ask", reason, finding };
    case "rollback":
      return rollback(state, finding) ?? { kind: "stuck", reason, finding };
  }
}

/**
 * Rolls back once for each best iteration, and never to files that are already present, because that would only repeat
 * the loop.
 */
function rollback(state: RalphState, finding: LoopFinding): NextMove | null {
  const { best } = state;
  const tree = best?.tree ?? null;
  if (best === null || tree === null || tree === state.iterations.at(-1)?.tree) return null;
  if (state.interventions.some((one) => one.kind === "rolled_back" && one.to === best.iteration)) return null;
  const reason = `${finding.sentence}; back to iteration ${best.iteration}, the best so far`;
  return { kind: "rollback", reason, finding, to: { iteration: best.iteration, tree } };
}

function doneReason(state: RalphState, units: number): string {
  const { iterations } = state.totals;
  const after = `after ${count(iterations, "iteration", "iterations")}`;
  const unchecked = state.iterations.at(-1)?.verdict === "unchecked";
  if (units > 1) return `All ${units} steps are done ${after}${unchecked ? "; nothing checked the last" : ""}`;
  return unchecked ? `The agent says that it is done, ${after}; nothing checked it` : `The criterion passes ${after}`;
}

function iterateReason(state: RalphState, unit: string): string {
  const last = state.iterations.at(-1);
  if (last === undefined) return "The first iteration";
  if (last.unit !== state.unit) return `On to ${unit}`;
  return last.verdict === "not_run"
    ? `The check could not run after iteration ${last.number}`
    : `The criterion still fails after iteration ${last.number}`;
}

function count(n: number, one: string, many: string): string {
  return `${n} ${n === 1 ? one : many}`;
}
