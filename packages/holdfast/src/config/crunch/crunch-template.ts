import { stringify } from "yaml";
import { defaultCrunchSettings } from "../../core/crunch/default-settings.ts";
import { GRAPH_PHASES } from "../../core/crunch/graph-template.ts";
import type { GraphPhase, TemplateNode } from "../../core/crunch/graph-template.ts";
import type { AgentProfile, CrunchSettings } from "../../core/crunch/settings.ts";
import { formatDuration } from "../parse-duration.ts";
import type { CrunchFile } from "./parse-crunch.ts";

/** These settings as the files that would say them, for a user to start from. Reading them gives the same settings again. */
export function crunchTemplate(settings: CrunchSettings): readonly CrunchFile[] {
  const removed = missing(settings.agents, defaultCrunchSettings.agents);
  const unarmed = missing(settings.veto, defaultCrunchSettings.veto);
  return [
    file("agents.yaml", AGENTS, {
      ...(removed.length === 0 ? {} : { remove: removed }),
      agents: mapped(settings.agents, profileMembers),
    }),
    file("team.yaml", TEAM, settings.team),
    file("weights.yaml", WEIGHTS, settings.weights),
    file("veto.yaml", VETO, { ...settings.veto, ...Object.fromEntries(unarmed.map((name) => [name, "none"])) }),
    ...GRAPH_PHASES.map((phase) => graphFile(phase, settings)),
  ];
}

const AGENTS = `Who may be called into a team. A label "domain:x" of one of its domains, or one of its keywords in the issue, calls an agent;
"always" needs neither. "agent: provider:model" says which program plays it. What is left out keeps its default;
"remove: [name]" takes one out.`;
const TEAM = "How agents are called: points for each domain and keyword, and how many it takes.";
const WEIGHTS = `How votes count: (base + boost) x confidence x relevance; the boost where the matter is one of the domains.
Scores nearer than "margin" of the higher one are a tie, which a person decides.`;
const VETO = `Who may veto, and how severely at most. CRITICAL applies at once and cannot be overridden; HIGH asks a person;
"none" takes a veto away.`;

function graphFile(phase: GraphPhase, settings: CrunchSettings): CrunchFile {
  const { nodes, edges } = settings.graphs[phase];
  const about = `What a team does in the phase ${phase}. This file replaces the whole graph. A node has an agent or a role (one node
for each of the team who has it), and falls out when the team has nobody for it or "when" does not hold.`;
  return file(`graphs/${phase}.yaml`, about, {
    nodes: nodes.map((node) => nodeMembers(node)),
    ...(edges.length === 0 ? {} : { edges }),
  });
}

function file(path: string, about: string, value: unknown): CrunchFile {
  const comment = about.split("\n").map((line) => `# ${line}\n`);
  return { path, text: `${comment.join("")}${stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })}` };
}

function profileMembers({ timeoutMs, agent, ...rest }: AgentProfile): object {
  return { ...rest, timeout: formatDuration(timeoutMs), ...(agent === null ? {} : { agent }) };
}

function nodeMembers({ who, timeoutMs, when, ...node }: TemplateNode): object {
  const { complexity, ...lists } = when;
  const conditions = Object.entries({ ...lists, complexity: complexity ?? [] }).filter(([, one]) => one.length > 0);
  const { id, ...rest } = node;
  return {
    id,
    ...(who.kind === "role" ? { role: who.role } : { agent: who.agent }),
    ...rest,
    ...(timeoutMs === null ? {} : { timeout: formatDuration(timeoutMs) }),
    ...(conditions.length === 0 ? {} : { when: Object.fromEntries(conditions) }),
  };
}

/** A default that does not hold must be said not to. */
function missing(
  given: Readonly<Record<string, unknown>>,
  defaults: Readonly<Record<string, unknown>>,
): readonly string[] {
  return Object.keys(defaults).filter((name) => !Object.hasOwn(given, name));
}

function mapped<T>(
  record: Readonly<Record<string, T>>,
  change: (value: T) => object,
): Readonly<Record<string, object>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
