import { validateGraph } from "../../core/graph/graph-order.ts";
import { nearest } from "../../core/nearest.ts";
import type { AgentProfile } from "../../core/crunch/settings.ts";
import type { AgentsFile, GraphFile } from "./crunch-schema.ts";

/** What a schema cannot see: names that lead nowhere. */
export interface Misplaced {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly hint?: string;
}

type Agents = Readonly<Record<string, AgentProfile>>;

/** A name may stand for nobody only if somebody is made by it, and then it needs all that has no default. */
export function checkAgents(file: AgentsFile, known: Agents): readonly Misplaced[] {
  const found: Misplaced[] = [];
  for (const [name, profile] of Object.entries(file.agents ?? {})) {
    const path = ["agents", name];
    if (!AGENT.test(name)) {
      found.push({ path, message: `"${name}" cannot be an agent's name: letters, digits and hyphens can` });
    }
    if (Object.hasOwn(known, name)) continue;
    const missing = (["role", "phases", "about"] as const).filter((key) => profile[key] === undefined);
    if (missing.length > 0)
      found.push({ path, message: `a new agent needs ${missing.join(", ")}`, ...guess(name, known) });
  }
  const removed = (file.remove ?? []).map((name, index) => [name, ["remove", index]] as const);
  return [...found, ...checkNames(removed, known)];
}

/** Each name must be an agent's; with its place for when it is not. */
export function checkNames(
  names: readonly (readonly [string, readonly PropertyKey[]])[],
  known: Agents,
): readonly Misplaced[] {
  return names
    .filter(([name]) => !Object.hasOwn(known, name))
    .map(([name, path]) => ({ path, message: `there is no agent "${name}"`, ...guess(name, known) }));
}

export function checkGraphFile(file: GraphFile, known: Agents): readonly Misplaced[] {
  const found: Misplaced[] = [];
  const ids = new Set(file.nodes.map((node) => node.id));
  const want = (id: string, path: readonly PropertyKey[]): void => {
    if (!ids.has(id)) found.push({ path, message: `there is no node "${id}"`, ...hinted(nearest(id, ids)[0]) });
  };
  file.nodes.forEach((node, index) => {
    const path = ["nodes", index];
    if (file.nodes.findIndex((one) => one.id === node.id) < index) {
      found.push({ path: [...path, "id"], message: `there are two nodes "${node.id}"` });
    }
    if ((node.agent === undefined) === (node.role === undefined)) {
      found.push({ path: [...path, "id"], message: `node "${node.id}" needs an agent or a role, and not both` });
    }
    if (node.agent !== undefined) found.push(...checkNames([[node.agent, [...path, "agent"]]], known));
    node.after?.forEach((id, at) => want(id, [...path, "after", at]));
  });
  file.edges?.forEach((edge, index) => {
    const path = ["edges", index];
    want(edge.from, [...path, "from"]);
    want(edge.to, [...path, "to"]);
    const needed = NEEDED[edge.type];
    if (needed !== null && edge[needed] === undefined) {
      found.push({ path: [...path, "type"], message: `an edge of type ${edge.type} needs ${needed}` });
    }
  });
  return found.length > 0 ? found : cycleIn(file);
}

const AGENT = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;
const NEEDED = { data: "key", sequence: null, approval: "by" } as const;

function cycleIn(file: GraphFile): readonly Misplaced[] {
  const nodes = file.nodes.map((node) => ({ ...BLANK, id: node.id, dependencies: node.after ?? [] }));
  const edges = (file.edges ?? []).map(({ from, to }) => ({ from, to, type: "sequence" as const }));
  return validateGraph({ nodes, edges, states: {} }).flatMap((problem) => {
    if (problem.kind !== "cycle") return [];
    const at = file.nodes.findIndex((node) => node.id === problem.path[0]);
    return [{ path: ["nodes", at, "id"], message: `${problem.path.join(" → ")} waits for itself` }];
  });
}

const BLANK = {
  agent: "",
  action: "",
  priority: "normal",
  timeoutMs: null,
  retries: 0,
  idempotent: true,
  outputs: [],
} as const;

function guess(name: string, known: Agents): { readonly hint?: string } {
  return hinted(nearest(name, Object.keys(known))[0]);
}

function hinted(near: string | undefined): { readonly hint?: string } {
  return near === undefined ? {} : { hint: `Did you mean ${near}?` };
}
