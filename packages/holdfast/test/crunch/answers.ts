import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import type { CrunchSettings, GraphPhase, GraphTemplate, TemplateNode } from "@holdfast/workflows/crunch/settings";
import type { JsonObject } from "@holdfast/core/json";
import type { Answer } from "./bench.ts";

/** An agent's answer in the form that it was asked for. `role` is the node's id. */
export function reply(role: string, rest: JsonObject = {}, more: Answer = {}): Answer {
  const { when, ...others } = more as { readonly when?: JsonObject };
  return {
    when: { role, ...when },
    reply: JSON.stringify({ status: "SUCCESS", summary: `${role} is done.`, ...rest }),
    ...others,
  };
}

/** Writes a file and reports it. */
export function writes(role: string, path: string, text: string, more: Answer = {}): Answer {
  return reply(role, {}, { edits: [{ do: "write", path, text }], ...more });
}

const NODE: Omit<TemplateNode, "id" | "who"> = {
  action: "work",
  task: "Do it.",
  after: [],
  priority: "normal",
  timeoutMs: null,
  retries: 0,
  idempotent: true,
  edits: false,
  outputs: [],
  when: { domains: [], labels: [], complexity: null },
};

export function node(id: string, agent: string, rest: Partial<TemplateNode> = {}): TemplateNode {
  return { ...NODE, id, who: { kind: "agent", agent }, ...rest };
}

const one = (...nodes: readonly TemplateNode[]): GraphTemplate => ({ nodes, edges: [] });

/** One node per phase, so that parts without assertions cost no time. */
const SMALL: Readonly<Record<GraphPhase, GraphTemplate>> = {
  enrich: one(node("spec", "system-architect")),
  implementing: one(node("build", "dev-python", { edits: true, action: "implement" })),
  e2e: one(node("check", "qa-engineer")),
  docs: one(node("document", "techwriter", { edits: true, action: "document" })),
};

/** The same for every test; the graphs that it is about are its own. */
export function settings(graphs: Partial<Record<GraphPhase, readonly TemplateNode[]>> = {}): {
  settings: CrunchSettings & JsonObject;
} {
  const own = Object.fromEntries(Object.entries(graphs).map(([phase, nodes]) => [phase, { nodes, edges: [] }]));
  const agents = Object.fromEntries(
    Object.entries(defaultCrunchSettings.agents).map(([name, profile]) => [
      name,
      { ...profile, always: TEAM.has(name) },
    ]),
  );
  return { settings: { ...defaultCrunchSettings, agents, graphs: { ...SMALL, ...own } } };
}

const TEAM: ReadonlySet<string> = new Set([
  "system-architect",
  "dev-python",
  "dev-go",
  "qa-engineer",
  "techwriter",
  "security-analyst",
  "reviewer",
]);

export const PASS: readonly Answer[] = [
  reply("spec"),
  writes("build", "greeting.txt", "hello\n"),
  reply("check"),
  writes("document", "docs.md", "It greets.\n"),
];
