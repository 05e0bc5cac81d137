import type { Json } from "../json.ts";
import { flag, list, nullable, object, oneOf, parseShape, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { FINDING_SHAPE } from "./finding.ts";
import type { LoopFinding } from "./finding.ts";
import { ANSWER_SHAPE, BEST_SHAPE, ITERATION_SHAPE, REFLECTION_SHAPE, VERIFICATION_SHAPE } from "./iteration.ts";
import type { Answer, BestIteration, Iteration, Reflection, Verification } from "./iteration.ts";
import { INTERVENTION_SHAPE, LEARNING_SHAPE } from "./state.ts";
import type { Intervention, Learning } from "./state.ts";

/**
 * All that changes a ralph run's values. Each is JSON and goes into the journal as it is, complete: folding needs no options, so a limit that was raised
 * between two processes changes nothing of what had happened.
 */
export type RalphEvent =
  | { readonly kind: "begun"; readonly loopId: string }
  /** In `iterate`, when the agent's turn is over. */
  | { readonly kind: "answered"; readonly answer: Answer }
  /** In `verify`, after the last check (see readVerification). */
  | { readonly kind: "verified"; readonly verification: Verification }
  /** In `reflect`: what planReflection made of the two. Memory, learnings and best are what they are from now on. */
  | {
      readonly kind: "reflected";
      readonly iteration: Iteration;
      /** Is the unit done? Then the next one is at hand. */
      readonly unitDone: boolean;
      readonly memory: readonly Reflection[];
      readonly learnings: readonly Learning[];
      readonly best: BestIteration | null;
      readonly findings: readonly LoopFinding[];
    }
  /** When a person answered, or files went back to an earlier iteration. */
  | { readonly kind: "intervened"; readonly intervention: Intervention };

/** STORE_CORRUPT with the path of what is wrong. */
export function parseRalphEvent(event: Json): RalphEvent {
  return parseShape({ shape: EVENT, value: event, what: "An event of a ralph run" });
}

type Of<K extends RalphEvent["kind"]> = Extract<RalphEvent, { readonly kind: K }>;

const EVENT: Shape<RalphEvent> = tagged<RalphEvent, "kind">("kind", {
  begun: object<Of<"begun">>({ kind: oneOf<"begun">({ begun: true }), loopId: text }),
  answered: object<Of<"answered">>({ kind: oneOf<"answered">({ answered: true }), answer: ANSWER_SHAPE }),
  verified: object<Of<"verified">>({
    kind: oneOf<"verified">({ verified: true }),
    verification: VERIFICATION_SHAPE,
  }),
  reflected: object<Of<"reflected">>({
    kind: oneOf<"reflected">({ reflected: true }),
    iteration: ITERATION_SHAPE,
    unitDone: flag,
    memory: list(REFLECTION_SHAPE),
    learnings: list(LEARNING_SHAPE),
    best: nullable(BEST_SHAPE),
    findings: list(FINDING_SHAPE),
  }),
  intervened: object<Of<"intervened">>({
    kind: oneOf<"intervened">({ intervened: true }),
    intervention: INTERVENTION_SHAPE,
  }),
});
