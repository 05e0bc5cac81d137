// Reads and writes the user's crunch settings in `.holdfast/crunch`: parsing, checking, merging with the defaults, and
// templates.

import { stringify } from "yaml";
import * as z from "zod/mini";
import { validateGraph } from "@holdfast/core/graph";
import { nearest } from "@holdfast/core/options";
import {
  type ConfigProblem,
  type ConfigSource,
  type SchemaIssue,
  choice,
  count,
  explainIssue,
  model,
  nodeAt,
  problemAt,
  settingValue,
  yesOrNo,
} from "@holdfast/formats/settings-file";
import { formatDuration, givenValues, milliseconds, nonEmpty, whole } from "@holdfast/formats/setting-values";
import { parseYaml } from "@holdfast/platform/yaml";
import { BLANK_NODE, BLANK_PROFILE, defaultCrunchSettings } from "./default-settings.ts";
import { PHASES, parsePhase } from "./phases.ts";
import {
  type AgentProfile,
  CRUNCH_FILES,
  type CrunchFileKind,
  type CrunchSettings,
  GRAPH_PHASES,
  type GraphPhase,
  type GraphTemplate,
  type TemplateEdge,
  type TemplateNode,
  type VetoRules,
  type WeightRules,
} from "./settings.ts";
import { COMPLEXITY_LEVELS, ROLES } from "./team.ts";

export interface CrunchFile {
  /** Path below `.holdfast/crunch`, such as `graphs/docs.yaml`. */
  readonly path: string;
  readonly text: string;
}

export interface CrunchProblem extends ConfigProblem {
  readonly path: string;
}

export type ParsedCrunch =
  | { readonly ok: true; readonly settings: CrunchSettings }
  | { readonly ok: false; readonly problems: readonly CrunchProblem[] };

/** Parses the texts of the settings files. Returns the settings, or every problem in any of the files. Pure. */
export function parseCrunch(files: readonly CrunchFile[]): ParsedCrunch {
  const reading = new Reading();
  // Agents come first, because the other files name them.
  for (const file of files.toSorted((a, b) => rank(a) - rank(b))) reading.read(file);
  return reading.problems.length === 0
    ? { ok: true, settings: reading.settings }
    : { ok: false, problems: reading.problems };
}

function rank(file: CrunchFile): number {
  return [...CRUNCH_FILES.keys()].indexOf(file.path);
}

class Reading {
  settings: CrunchSettings = defaultCrunchSettings;
  readonly problems: CrunchProblem[] = [];
  readonly #phases = new Map<GraphPhase, string>();

  read(file: CrunchFile): void {
    const kind = CRUNCH_FILES.get(file.path);
    const read = parseYaml(file.text);
    const source: ConfigSource = { text: file.text, document: read.document, lines: read.lines };
    const report = (found: readonly ConfigProblem[]): void => {
      const placed = found.map((problem) => ({ ...problem, path: file.path }));
      this.problems.push(...placed.toSorted((a, b) => a.line - b.line || a.column - b.column));
    };
    if (kind === undefined) {
      const known = [...CRUNCH_FILES.keys()].join(", ");
      report([problemAt({ source, range: undefined, message: "nothing reads this file", hint: `Known: ${known}.` })]);
    } else if (!read.ok) report(read.faults.map((fault) => problemAt({ source, ...fault })));
    else this.#take(kind, { source, value: read.value ?? {}, path: file.path, report });
  }

  /**
   * Agents that a file may name, including removed ones. A rule for a removed agent has no effect and is not an error.
   */
  get #known(): CrunchSettings["agents"] {
    return { ...defaultCrunchSettings.agents, ...this.settings.agents };
  }

  #take(kind: CrunchFileKind, given: Given): void {
    const { settings } = this;
    const names = (named: readonly NamedAt[]): readonly Misplaced[] => checkNames(named, this.#known);
    switch (kind.kind) {
      case "agents":
        return this.#merge(given, agentsSchema, {
          misplaced: (file) => checkAgents(file, settings.agents),
          merged: (file) => ({ agents: mergeAgents(file, settings.agents) }),
        });
      case "team":
        return this.#merge(given, teamSchema, {
          misplaced: ({ fallbackImplementer: name }) =>
            names(name === undefined ? [] : [[name, ["fallbackImplementer"]]]),
          merged: (file) => ({ team: { ...settings.team, ...givenValues(file) } }),
        });
      case "weights":
        return this.#merge(given, weightsSchema, {
          misplaced: ({ agents = {} }) =>
            names(Object.keys(agents).flatMap((name) => (name.endsWith("*") ? [] : [[name, ["agents", name]]]))),
          merged: (file) => ({ weights: mergeWeights(file, settings.weights) }),
        });
      case "veto":
        return this.#merge(given, vetoSchema, {
          misplaced: (file) => names(Object.keys(file).map((name) => [name, [name]])),
          merged: (file) => ({ veto: mergeVeto(file, settings.veto) }),
        });
      case "graph":
        return this.#graph(kind.phase, given);
    }
  }

  #graph(phase: GraphPhase, given: Given): void {
    const earlier = this.#phases.get(phase);
    if (earlier !== undefined) {
      const message = `${earlier} is for the same phase`;
      given.report([problemAt({ source: given.source, range: undefined, message, hint: "Keep one of the two." })]);
      return;
    }
    this.#phases.set(phase, given.path);
    this.#merge(given, graphSchema, {
      misplaced: (file) => checkGraphFile(file, this.#known),
      merged: (file) => ({ graphs: { ...this.settings.graphs, [phase]: templateOf(file) } }),
    });
  }

  /** Merges a file over the settings, or reports why it cannot be. */
  #merge<T>(
    given: Given,
    schema: Schema<T>,
    rules: {
      readonly misplaced: (file: T) => readonly Misplaced[];
      readonly merged: (file: T) => Partial<CrunchSettings>;
    },
  ): void {
    const file = check(schema, given);
    if (file === null || misplaced(rules.misplaced(file), given)) return;
    this.settings = { ...this.settings, ...rules.merged(file) };
  }
}

interface Given {
  readonly source: ConfigSource;
  readonly value: unknown;
  readonly path: string;
  readonly report: (problems: readonly ConfigProblem[]) => void;
}

interface Schema<T> {
  safeParse(
    value: unknown,
  ):
    | { readonly success: true; readonly data: T }
    | { readonly success: false; readonly error: { readonly issues: readonly SchemaIssue[] } };
}

function check<T>(schema: Schema<T>, { value, source, report }: Given): T | null {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  report(result.error.issues.flatMap((issue) => explainIssue(issue, source, schema)));
  return null;
}

function misplaced(found: readonly Misplaced[], { source, report }: Given): boolean {
  report(
    found.map(({ path, message, hint }) =>
      problemAt({
        source,
        range: nodeAt(source, path)?.range ?? undefined,
        message,
        ...(hint === undefined ? {} : { hint }),
      }),
    ),
  );
  return found.length > 0;
}

/** A problem that a schema cannot detect: a name that refers to nothing. */
interface Misplaced {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly hint?: string;
}

/** A name of an agent, and where it is in the file. */
type NamedAt = readonly [name: string, path: readonly PropertyKey[]];
type Agents = Readonly<Record<string, AgentProfile>>;

/** An unknown name defines a new agent, which needs every field without a default. */
function checkAgents(file: AgentsFile, known: Agents): readonly Misplaced[] {
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

/** Checks that each name is an agent's. */
function checkNames(names: readonly NamedAt[], known: Agents): readonly Misplaced[] {
  return names
    .filter(([name]) => !Object.hasOwn(known, name))
    .map(([name, path]) => ({ path, message: `there is no agent "${name}"`, ...guess(name, known) }));
}

function checkGraphFile(file: GraphFile, known: Agents): readonly Misplaced[] {
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
  const nodes = file.nodes.map((node) => ({ ...EMPTY_NODE, id: node.id, dependencies: node.after ?? [] }));
  const edges = (file.edges ?? []).map(({ from, to }) => ({ from, to, type: "sequence" as const }));
  return validateGraph({ nodes, edges, states: {} }).flatMap((problem) => {
    if (problem.kind !== "cycle") return [];
    const at = file.nodes.findIndex((node) => node.id === problem.path[0]);
    return [{ path: ["nodes", at, "id"], message: `${problem.path.join(" → ")} waits for itself` }];
  });
}

const EMPTY_NODE = {
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

/** Merges the file over the known settings, field by field. A graph file, in contrast, replaces the whole graph. */

function mergeAgents(file: AgentsFile, known: Agents): Agents {
  const removed = new Set(file.remove);
  const merged = new Map(Object.entries(known).filter(([name]) => !removed.has(name)));
  for (const [name, { timeout, ...given }] of Object.entries(file.agents ?? {})) {
    const base = Object.hasOwn(known, name) ? (known[name] ?? BLANK_PROFILE) : BLANK_PROFILE;
    merged.set(name, { ...base, ...givenValues(given), timeoutMs: timeout ?? base.timeoutMs });
  }
  return Object.fromEntries(merged);
}

function mergeWeights(
  { agents: given = {}, others: forOthers = {}, ...rest }: WeightsFile,
  known: WeightRules,
): WeightRules {
  const others = { ...known.others, ...givenValues(forOthers) };
  const agents = new Map(Object.entries(known.agents));
  for (const [name, weight] of Object.entries(given))
    agents.set(name, { ...(agents.get(name) ?? others), ...givenValues(weight) });
  return { ...known, ...givenValues(rest), agents: Object.fromEntries(agents), others };
}

function mergeVeto(file: VetoFile, known: VetoRules): VetoRules {
  const rules = new Map(Object.entries(known));
  for (const [name, severity] of Object.entries(file)) {
    if (severity === "none") rules.delete(name);
    else rules.set(name, severity);
  }
  return Object.fromEntries(rules);
}

/** Expects a file that has been checked. */
function templateOf(file: GraphFile): GraphTemplate {
  return { nodes: file.nodes.map((node) => nodeOf(node)), edges: (file.edges ?? []).map((edge) => edgeOf(edge)) };
}

function nodeOf({ agent = "", role, timeout, when = {}, ...given }: GraphFile["nodes"][number]): TemplateNode {
  return {
    ...BLANK_NODE,
    ...givenValues(given),
    who: role === undefined ? { kind: "agent", agent } : { kind: "role", role },
    timeoutMs: timeout ?? null,
    when: { ...BLANK_NODE.when, ...givenValues(when) },
  };
}

function edgeOf({ type, from, to, key, by }: NonNullable<GraphFile["edges"]>[number]): TemplateEdge {
  switch (type) {
    case "data":
      return { type, from, to, key: key ?? "" };
    case "sequence":
      return { type, from, to };
    case "approval":
      return { type, from, to, by: by ?? "" };
  }
}

/** Schemas of the files in `.holdfast/crunch/`. Durations have units, and missing values keep their default. */

const PRIORITIES = ["critical", "high", "normal", "low"] as const;

const agentsSchema = z.strictObject({
  remove: z.optional(texts("agents")),
  agents: z.optional(
    z.record(
      z.string(),
      z.strictObject({
        role: z.optional(choice(ROLES)),
        phases: z.optional(settingValue(`a list of phases: ${GRAPH_PHASES.join(", ")}`, phases)),
        domains: z.optional(texts("domains")),
        keywords: z.optional(texts("words")),
        languages: z.optional(texts("languages")),
        always: z.optional(yesOrNo()),
        timeout: z.optional(duration()),
        agent: z.optional(model()),
        about: z.optional(settingValue("a text", nonEmpty)),
      }),
    ),
  ),
});

const teamSchema = z.strictObject({
  labelPoints: z.optional(count(0)),
  keywordPoints: z.optional(count(0)),
  leastPoints: z.optional(count(1)),
  fallbackImplementer: z.optional(settingValue("an agent's name", nonEmpty)),
});

const weight = z.strictObject({
  base: z.optional(share(10)),
  boost: z.optional(share(10)),
  domains: z.optional(texts("domains")),
});

const weightsSchema = z.strictObject({
  agents: z.optional(z.record(z.string(), weight)),
  others: z.optional(weight),
  maxRounds: z.optional(
    settingValue("1, 2 or 3", (value) => ([1, 2, 3].includes(Number(value)) ? whole(value, 1) : undefined)),
  ),
  margin: z.optional(share(1)),
});

const vetoSchema = z.record(z.string(), choice(["CRITICAL", "HIGH", "none"]));

const node = z.strictObject({
  id: settingValue("a name of letters, digits and hyphens", identifier),
  agent: z.optional(settingValue("an agent's name", nonEmpty)),
  role: z.optional(choice(ROLES)),
  action: settingValue("an action such as implement or review_code", nonEmpty),
  task: settingValue("a text: what the agent is to do", nonEmpty),
  after: z.optional(texts("ids of nodes")),
  priority: z.optional(choice(PRIORITIES)),
  timeout: z.optional(duration()),
  retries: z.optional(count(0)),
  idempotent: z.optional(yesOrNo()),
  edits: z.optional(yesOrNo()),
  outputs: z.optional(texts("names")),
  when: z.optional(
    z.strictObject({
      domains: z.optional(texts("domains")),
      labels: z.optional(texts("labels")),
      complexity: z.optional(choice(COMPLEXITY_LEVELS)),
    }),
  ),
});

const edge = z.strictObject({
  type: choice(["data", "sequence", "approval"]),
  from: settingValue("the id of a node", nonEmpty),
  to: settingValue("the id of a node", nonEmpty),
  key: z.optional(settingValue("a name", nonEmpty)),
  by: z.optional(settingValue("who approves", nonEmpty)),
});

const graphSchema = z.strictObject({ nodes: z.array(node), edges: z.optional(z.array(edge)) });

type AgentsFile = z.output<typeof agentsSchema>;
type WeightsFile = z.output<typeof weightsSchema>;
type VetoFile = z.output<typeof vetoSchema>;
type GraphFile = z.output<typeof graphSchema>;

function identifier(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z0-9][a-z0-9-]{0,62}$/i.test(value) ? value : undefined;
}

function texts(what: string) {
  return settingValue(`a list of ${what}`, (value) => {
    if (!Array.isArray(value)) return undefined;
    const found = value.filter((item): item is string => typeof item === "string" && item.trim() !== "");
    return found.length === value.length ? found : undefined;
  });
}

function phases(value: unknown) {
  if (!Array.isArray(value)) return undefined;
  const found = value.map((item) => (typeof item === "string" ? parsePhase(item) : null));
  const known = PHASES.filter((phase) => found.includes(phase));
  return found.includes(null) ? undefined : known;
}

function duration() {
  return settingValue("a duration such as 5m", milliseconds);
}

function share(most: number) {
  return settingValue(`a number from 0 to ${most}`, (value) =>
    typeof value === "number" && value >= 0 && value <= most ? value : undefined,
  );
}

/** Writes settings as files for a user to start from. Parsing the files gives the same settings. */
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
"always" needs neither. With "languages", keywords call it only where the repository has one of them.
"agent: provider:model" says which program plays it. What is left out keeps its default;
"remove: [name]" takes one out.`;
const TEAM = "How agents are called: points for each domain and keyword, and how many it takes.";
const WEIGHTS = `How votes count: (base + boost) x confidence x relevance; the boost where the matter is one of the domains.
Scores nearer than "margin" of the higher one are a tie, which a person decides.`;
const VETO = `Who may veto, and how severely at most. CRITICAL applies at once and cannot be overridden; HIGH asks a person;
"none" takes a veto away.`;

function graphFile(phase: GraphPhase, settings: CrunchSettings): CrunchFile {
  const { nodes, edges } = settings.graphs[phase];
  const about = `What a team does in the phase ${phase}. This file replaces the whole graph. A node has an agent or a role (one node
for each of the team who has it), and is left out when the team has no agent for it or "when" does not hold.`;
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

/** Defaults that these settings lack, which the files must remove explicitly. */
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
