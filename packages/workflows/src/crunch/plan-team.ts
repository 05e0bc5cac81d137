// Plans a crunch team and the graph of a phase from the issue, the settings and the graph templates. All decisions are
// pure.

import { type Graph, type GraphEdge, type GraphNode, checkGraph } from "@holdfast/core/graph";
import { isJsonObject, sha256 } from "@holdfast/core/json";
import { DOMAINS, type Domain, domainsOfLabels, hasLabel } from "./phases.ts";
import type {
  AgentProfile,
  CrunchSettings,
  GraphPhase,
  GraphTemplate,
  TeamRules,
  TemplateCondition,
  TemplateEdge,
  TemplateNode,
} from "./settings.ts";
import {
  type ComplexityLevel,
  type ComplexitySigns,
  type Team,
  type TeamMember,
  membersIn,
  needsOrchestrator,
  scoreComplexity,
} from "./team.ts";

interface TeamIssue {
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly labels: readonly string[];
}

/**
 * Composes the team for an issue from its labels and words and the repository's languages, so that the same issue always
 * gets the same team.
 */
export function composeTeam(params: {
  readonly issue: TeamIssue;
  readonly settings: Pick<CrunchSettings, "agents" | "team">;
  /** Languages of the repository, most frequent first; empty: none is recognised. */
  readonly languages: readonly string[];
  /** How many earlier runs of this issue failed. */
  readonly priorFailures: number;
  readonly at: string;
}): Team {
  const { issue, settings, languages } = params;
  const signs = readComplexitySigns(issue, params.priorFailures);
  const complexity = scoreComplexity(signs);
  const complex = hasLabel(issue.labels, "complex");
  const orchestrated = needsOrchestrator({ ...signs, score: complexity.score, complex });
  const text = `${issue.title}\n${issue.body}`;
  const members = Object.entries(settings.agents).flatMap(([agent, profile]): TeamMember[] => {
    // Words about a language that the repository does not have select no agent for it; a label does.
    const words = fits(profile, languages)
      ? { text, domains: signs.domains }
      : { text: "", domains: domainsOfLabels(issue.labels) };
    const score = routingScore({ profile, ...words, rules: settings.team });
    const called = profile.role === "coordinator" ? orchestrated : profile.always || score >= settings.team.leastPoints;
    const points = profile.always || profile.role === "coordinator" ? 100 : score;
    return called ? [{ agent, role: profile.role, phases: profile.phases, routingScore: points }] : [];
  });
  const whole = withImplementer(members, settings, languages);
  const hash = sha256(JSON.stringify([issue.number, params.at, whole.map((member) => member.agent)])).slice(0, 4);
  return {
    id: `TEAM-${params.at.slice(0, 10).replaceAll("-", "")}-${hash}`,
    issue: issue.number,
    complexity,
    domains: signs.domains,
    languages,
    members: whole,
    tasks: {},
  };
}

/** Reads from an issue what determines its complexity. */
export function readComplexitySigns(issue: TeamIssue, priorFailures: number): ComplexitySigns {
  const text = `${issue.title}\n${issue.body}`;
  const found = new Set<string>([...domainsOfLabels(issue.labels), ...domainsInText(text)]);
  return {
    domains: DOMAINS.filter((domain) => found.has(domain)),
    files: filesNamed(issue.body),
    breaking: hasLabel(issue.labels, "breaking-change") || countWords(text, ["breaking change"]) > 0,
    priorFailures,
  };
}

function fits({ languages }: AgentProfile, found: readonly string[]): boolean {
  return languages === undefined || found.length === 0 || languages.some((language) => found.includes(language));
}

/** Languages by the extensions of their files. Markup and data are in every repository and say nothing. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  C: "c h",
  "C++": "cc cpp cxx hh hpp hxx",
  "C#": "cs",
  Clojure: "clj cljs",
  Dart: "dart",
  Elixir: "ex exs",
  Erlang: "erl",
  Go: "go",
  Haskell: "hs",
  Java: "java",
  JavaScript: "js cjs mjs",
  JSX: "jsx tsx",
  Kotlin: "kt kts",
  Lua: "lua",
  "Objective-C": "m mm",
  Perl: "pl pm",
  PHP: "php",
  Python: "py pyi",
  R: "r",
  Ruby: "rb",
  Rust: "rs",
  Scala: "scala",
  Shell: "sh bash",
  Svelte: "svelte",
  Swift: "swift",
  TypeScript: "ts cts mts",
  Vue: "vue",
  Zig: "zig",
};
const LANGUAGE_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(EXTENSIONS).flatMap(([language, all]) => all.split(" ").map((one) => [one, language] as const)),
);
/** Files that others wrote or a program generated. */
const NOT_OWN = /(?:^|\/)(?:node_modules|vendor|third_party|dist|build)\/|\.min\.[^/]+$/;

/** The languages of at least a twentieth of the recognised files, most frequent first. */
export function detectLanguages(paths: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const path of paths) {
    const extension = /\.([^./"]+)"?$/.exec(path)?.[1]?.toLowerCase() ?? "";
    const language = NOT_OWN.test(path) ? undefined : LANGUAGE_OF.get(extension);
    if (language !== undefined) counts.set(language, (counts.get(language) ?? 0) + 1);
  }
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return [...counts]
    .filter(([, count]) => count * 20 >= all)
    .toSorted(([one, a], [other, b]) => b - a || (one < other ? -1 : 1))
    .map(([language]) => language);
}

/**
 * A team needs an implementer: adds the one for the repository's most frequent language, else the configured fallback,
 * else the first implementer in the settings.
 */
function withImplementer(
  members: readonly TeamMember[],
  settings: Pick<CrunchSettings, "agents" | "team">,
  [language]: readonly string[],
): readonly TeamMember[] {
  if (members.some((member) => member.role === "implementer")) return members;
  const implementers = Object.entries(settings.agents).filter(([, profile]) => profile.role === "implementer");
  const [agent, profile] =
    implementers.find(([, one]) => language !== undefined && one.languages?.includes(language) === true) ??
    implementers.find(([name]) => name === settings.team.fallbackImplementer) ??
    implementers[0] ??
    [];
  return agent === undefined || profile === undefined
    ? members
    : [...members, { agent, role: profile.role, phases: profile.phases, routingScore: 0 }];
}

function routingScore(params: {
  readonly profile: AgentProfile;
  readonly text: string;
  readonly domains: readonly string[];
  readonly rules: TeamRules;
}): number {
  const { profile, rules } = params;
  const labels = profile.domains.filter((domain) => params.domains.includes(domain)).length;
  const points = labels * rules.labelPoints + countWords(params.text, profile.keywords) * rules.keywordPoints;
  return Math.min(100, points);
}

/** Counts the distinct paths in the text, as an estimate of how many files will change. */
function filesNamed(text: string): number {
  const paths = text
    .slice(0, 100_000)
    .match(/[\w.-]+(?:\/[\w.-]+)+\.\w{1,8}\b|\b[\w-]+\.(?:[cm]?[jt]sx?|py|go|[ch]pp)\b/g);
  return new Set(paths).size;
}

/** Domains of a text by its words, in the order of DOMAINS. Labels are the better source and are read separately. */
export function domainsInText(text: string): readonly Domain[] {
  return DOMAINS.filter((domain) => countWords(text, DOMAIN_WORDS[domain]) > 0);
}

/** Counts how many of these words the text contains, each once. Only whole words match: "go" is not in "good". */
function countWords(text: string, words: readonly string[]): number {
  const lower = text.slice(0, MAX_TEXT).toLowerCase();
  return new Set(words.map((word) => word.toLowerCase()).filter((word) => hasWord(lower, word))).size;
}

/** An issue may include a whole log; the relevant words come before it. */
const MAX_TEXT = 100_000;

/** Only unambiguous words: "go" and "test" occur in every English text and must not select an agent. */
const DOMAIN_WORDS: Readonly<Record<Domain, readonly string[]>> = {
  security: [
    "security",
    "vulnerability",
    "cve",
    "xss",
    "csrf",
    "injection",
    "authentication",
    "oauth",
    "jwt",
    "secret",
  ],
  infra: ["infrastructure", "docker", "dockerfile", "kubernetes", "terraform", "helm", "deployment", "ci/cd"],
  performance: ["performance", "latency", "throughput", "slow", "memory leak", "profiling"],
  api: ["api", "endpoint", "rest", "graphql", "grpc", "openapi"],
  database: ["database", "sql", "postgres", "postgresql", "mysql", "sqlite", "migration", "schema migration"],
  frontend: ["frontend", "react", "css", "browser", "component", ".tsx", ".jsx"],
  python: ["python", "pytest", "django", "flask", "fastapi", ".py"],
  cpp: ["c++", "cpp", "cmake", ".cpp", ".hpp"],
  go: ["golang", "goroutine", "go.mod", ".go"],
};

function hasWord(text: string, word: string): boolean {
  if (word === "") return false;
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    const starts = !isWordCharacter(word[0]) || !isWordCharacter(text[at - 1]);
    const ends = !isWordCharacter(word.at(-1)) || !isWordCharacter(text[at + word.length]);
    if (starts && ends) return true;
  }
  return false;
}

function isWordCharacter(character: string | undefined): boolean {
  return character !== undefined && /[a-z0-9_]/.test(character);
}

/**
 * Builds a graph from a template and a team. A role node becomes one node per member. A node without an agent or with a
 * false condition drops out, and its dependents inherit its dependencies. Throws USAGE with all problems and names
 * cycles.
 */
export function planPhaseGraph(params: {
  readonly phase: GraphPhase;
  readonly template: GraphTemplate;
  readonly team: Team;
  readonly agents: Readonly<Record<string, AgentProfile>>;
  readonly labels: readonly string[];
  /** Number of the phase attempt, so that each attempt has its own graph. */
  readonly attempt: number;
  readonly at: string;
}): Graph {
  const { phase, template, team } = params;
  const filled = template.nodes.map((node) => ({
    node,
    agents: holds(node.when, params) ? agentsFor(node, params) : [],
  }));
  const nodesOf = new Map<string, readonly string[]>();
  for (const { node, agents } of filled) {
    nodesOf.set(node.id, [...(nodesOf.get(node.id) ?? []), ...agents.map((agent) => idOf(node, agent))]);
  }
  const stand = (id: string): readonly string[] => standIns({ id, template, nodesOf });
  const nodes = filled.flatMap(({ node, agents }) =>
    agents.map((agent): GraphNode => ({
      id: idOf(node, agent),
      agent,
      action: node.action,
      dependencies: [...new Set(node.after.flatMap(stand))],
      priority: node.priority,
      timeoutMs: node.timeoutMs ?? params.agents[agent]?.timeoutMs ?? null,
      retries: node.retries,
      idempotent: node.idempotent,
      outputs: node.outputs,
    })),
  );
  const edges = template.edges.flatMap((edge) => edgesOf(edge, { nodesOf, stand }));
  const kept = filled.flatMap(({ node, agents }) => agents.map((agent) => [idOf(node, agent), node] as const));
  const hash = sha256(JSON.stringify([team.issue, phase, params.attempt, nodes.map((node) => node.id)]));
  const graph: Graph = {
    id: `GRAPH-${params.at.slice(0, 19).replaceAll(/[-:]/g, "")}-${hash.slice(0, 8)}`,
    nodes,
    edges,
    states: {},
    meta: {
      issue: team.issue,
      phase,
      attempt: params.attempt,
      tasks: Object.fromEntries(kept.map(([id, node]) => [id, node.task])),
      edits: Object.fromEntries(kept.map(([id, node]) => [id, node.edits])),
    },
  };
  checkGraph(graph);
  return graph;
}

/** Whether this node changes files. For a node added at run time, its action decides. */
export function editsFiles(graph: Graph, node: Pick<GraphNode, "id" | "action">): boolean {
  const edits = isJsonObject(graph.meta["edits"]) ? graph.meta["edits"] : {};
  const known = Object.hasOwn(edits, node.id) ? edits[node.id] : undefined;
  return typeof known === "boolean" ? known : EDITING_ACTIONS.has(node.action);
}

/** The task of a node; its action if the graph holds no task. */
export function taskOf(graph: Graph, node: Pick<GraphNode, "id" | "action">): string {
  const tasks = isJsonObject(graph.meta["tasks"]) ? graph.meta["tasks"] : {};
  const task = Object.hasOwn(tasks, node.id) ? tasks[node.id] : undefined;
  return typeof task === "string" ? task : node.action;
}

const EDITING_ACTIONS: ReadonlySet<string> = new Set(["implement", "document", "fix"]);

const LEVELS: Readonly<Record<ComplexityLevel, number>> = { LOW: 0, MEDIUM: 1, HIGH: 2, CRITICAL: 3 };

function holds(when: TemplateCondition, params: { readonly team: Team; readonly labels: readonly string[] }): boolean {
  const { team, labels } = params;
  return (
    (when.domains.length === 0 || when.domains.some((domain) => team.domains.includes(domain))) &&
    (when.labels.length === 0 || when.labels.some((label) => hasLabel(labels, label.toLowerCase()))) &&
    (when.complexity === null || LEVELS[team.complexity.level] >= LEVELS[when.complexity])
  );
}

function agentsFor(
  { who }: TemplateNode,
  { team, phase }: { readonly team: Team; readonly phase: GraphPhase },
): readonly string[] {
  if (who.kind === "role") return membersIn(team, { role: who.role, phase });
  return team.members.some((member) => member.agent === who.agent) ? [who.agent] : [];
}

function idOf(node: TemplateNode, agent: string): string {
  return node.who.kind === "role" ? `${node.id}-${agent}` : node.id;
}

/** The nodes that a template node produced; for a dropped node, those of its dependencies. */
function standIns(params: {
  readonly id: string;
  readonly template: GraphTemplate;
  readonly nodesOf: ReadonlyMap<string, readonly string[]>;
}): readonly string[] {
  const { template, nodesOf } = params;
  const found = new Set<string>();
  const seen = new Set([params.id]);
  for (const id of seen) {
    const nodes = nodesOf.get(id);
    // An id that is missing in the template is kept, so that the check can report it.
    if (nodes === undefined) found.add(id);
    else if (nodes.length > 0) for (const node of nodes) found.add(node);
    else for (const earlier of before(template, id)) seen.add(earlier);
  }
  return [...found];
}

function before(template: GraphTemplate, id: string): readonly string[] {
  return [
    ...template.nodes.filter((node) => node.id === id).flatMap((node) => node.after),
    ...template.edges.filter((edge) => edge.to === id).map((edge) => edge.from),
  ];
}

/**
 * A dropped source turns a data or approval edge into a sequence edge, because nothing is left to pass on or approve.
 * The order remains.
 */
function edgesOf(
  edge: TemplateEdge,
  params: {
    readonly nodesOf: ReadonlyMap<string, readonly string[]>;
    readonly stand: (id: string) => readonly string[];
  },
): readonly GraphEdge[] {
  const there = params.nodesOf.get(edge.from);
  const to = params.nodesOf.get(edge.to) ?? [edge.to];
  const fellOut = there?.length === 0;
  const from = fellOut ? params.stand(edge.from) : (there ?? [edge.from]);
  return from.flatMap((one) =>
    to.map((other): GraphEdge => {
      const ends = { from: one, to: other };
      if (fellOut || edge.type === "sequence") return { ...ends, type: "sequence" };
      return edge.type === "data"
        ? { ...ends, type: "data", key: edge.key }
        : { ...ends, type: "approval", by: edge.by, approvedAt: null };
    }),
  );
}
