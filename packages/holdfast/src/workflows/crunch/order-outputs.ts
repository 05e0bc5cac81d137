import type { AgentOutput } from "../../core/crunch/crunch-state.ts";
import { PHASES } from "../../core/crunch/phase.ts";

/** By phase and node, not in the order of arrival: whoever reads them again finds them the same. */
export function inOrder(outputs: readonly AgentOutput[]): readonly AgentOutput[] {
  return outputs.toSorted(
    (a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase) || (a.node < b.node ? -1 : a.node > b.node ? 1 : 0),
  );
}
