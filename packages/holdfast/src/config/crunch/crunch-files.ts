import { GRAPH_PHASES } from "../../core/crunch/graph-template.ts";
import type { GraphPhase } from "../../core/crunch/graph-template.ts";

/** Below the root of the repository. */
export const CRUNCH_DIRECTORY = ".holdfast/crunch";

export type CrunchFileKind =
  | { readonly kind: "agents" | "team" | "weights" | "veto" }
  | { readonly kind: "graph"; readonly phase: GraphPhase };

/** The files that may be there, by their path below CRUNCH_DIRECTORY. Of two names for one phase only the newer is written. */
export const CRUNCH_FILES: ReadonlyMap<string, CrunchFileKind> = new Map<string, CrunchFileKind>([
  ["agents.yaml", { kind: "agents" }],
  ["team.yaml", { kind: "team" }],
  ["weights.yaml", { kind: "weights" }],
  ["veto.yaml", { kind: "veto" }],
  ...GRAPH_PHASES.map((phase) => [`graphs/${phase}.yaml`, { kind: "graph", phase }] as const),
  ["graphs/validation.yaml", { kind: "graph", phase: "e2e" }],
]);
