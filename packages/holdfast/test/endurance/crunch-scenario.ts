import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import type { TemplateNode } from "@holdfast/workflows/crunch/settings";
import { parseCrunchState } from "@holdfast/workflows/crunch/state";
import type { JsonObject } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import { node } from "../crunch/answers.ts";
import type { Leg, Scenario } from "./scenarios.ts";
import type { FinalState } from "./final-state.ts";

const usage = { input: 300, output: 100, microUsd: 5000 };

function says(role: string, rest: JsonObject = {}, more: JsonObject = {}): JsonObject {
  const reply = JSON.stringify({ status: "SUCCESS", summary: `${role} is done.`, ...rest });
  return { when: { role }, reply, usage, ...more };
}

/** If the parent dies at the first edit, the edits after the pause are still outstanding. */
function writes(role: string, path: string, text: string): JsonObject {
  return says(
    role,
    {},
    {
      edits: [
        { do: "write", path, text: "half\n" },
        { do: "wait", ms: 40 },
        { do: "write", path, text },
      ],
    },
  );
}

function wants(scope: string, choice: string): JsonObject {
  return { recommendations: [{ scope, choice, rationale: "It is better.", confidence: 80 }] };
}

function stands(agent: string, rest: JsonObject): JsonObject {
  const position = { rationale: "As before.", evidence: [], confidence: 90, relevance: 1, ...rest };
  return { when: { role: `debate-${agent}` }, reply: JSON.stringify(position), usage };
}

const edits = { edits: true, action: "implement" };

/** Twelve nodes in three batches: two write the same file, two pairs disagree, one fails for good, one runs out of time once. */
const NODES: readonly TemplateNode[] = [
  node("one", "dev-python", edits),
  node("two", "dev-go", edits),
  node("three", "system-architect"),
  node("four", "reviewer"),
  node("fails", "qa-engineer"),
  node("six", "security-analyst", { after: ["one"] }),
  node("seven", "dev-python", { after: ["three"] }),
  node("late", "techwriter", { after: ["four"], timeoutMs: 4000 }),
  node("nine", "dev-go", { ...edits, after: ["two"] }),
  node("ten", "dev-python", { ...edits, after: ["six", "seven"] }),
  node("eleven", "reviewer", { after: ["late"] }),
  node("skipped", "qa-engineer", { after: ["fails"] }),
];

const TEAM: ReadonlySet<string> = new Set(NODES.map(({ who }) => (who.kind === "agent" ? who.agent : "")));

function crunchOptions(): JsonObject {
  const agents = Object.fromEntries(
    Object.entries(defaultCrunchSettings.agents).map(([name, profile]) => [
      name,
      { ...profile, always: TEAM.has(name) },
    ]),
  );
  const empty = { nodes: [], edges: [] };
  const graphs = { enrich: empty, implementing: { nodes: NODES, edges: [] }, e2e: empty, docs: empty };
  const settings: JsonObject = { ...defaultCrunchSettings, agents, graphs };
  return { maxParallel: 3, limits: { replays: 0 }, settings };
}

/** Three conflicts of three kinds, a timeout, a failed node and its dependent, every request answered once, every lesson kept once. */
function claims({ values, position, forge }: Pick<FinalState, "values" | "position" | "forge">): readonly string[] {
  const state = parseCrunchState(values as JsonObject);
  const { graph } = position as Pick<Position, "graph">;
  const { records, refused } = state.messages;
  const facts: Readonly<Record<string, unknown>> = {
    conflicts: state.conflicts.map(({ resolution }) => resolution?.how).toSorted(),
    states: Object.entries(graph?.states ?? {}).map(([id, { status, timeouts = 0 }]) => `${id} ${status} ${timeouts}`),
    open: records.filter(({ message, status }) => message.type === "REQUEST" && status.kind === "awaiting").length,
    withdrawn: records.filter(({ status }) => status.kind === "withdrawn").length,
    refused: refused.length + state.refused.length,
    kept: state.knowledge.captured.map(({ name }) => name).length,
    labels: forge.filter((line) => line.startsWith("labels")).length,
  };
  const expected: Readonly<Record<string, unknown>> = {
    conflicts: ["agreement", "veto", "vote"],
    states: NODES.map(({ id }) => `${id} ${STATUS[id] ?? "complete"} ${id === "late" ? 1 : 0}`).toSorted(),
    open: 0,
    withdrawn: 1,
    refused: 0,
    // Three decisions and what two agents thought worth keeping.
    kept: 5,
    labels: 6,
  };
  return Object.keys(expected)
    .filter((what) => JSON.stringify(facts[what]) !== JSON.stringify(expected[what]))
    .map((what) => `${what}: ${JSON.stringify(facts[what])} instead of ${JSON.stringify(expected[what])}`);
}

const STATUS: Readonly<Record<string, string>> = { fails: "failed", skipped: "skipped" };

const leg: Leg = { options: crunchOptions(), limit: {}, raises: false, own: "crunch", ends: "done" };

/**
 * A team at work, killed at every write: three conflicts, one of them ended by a veto and one by fixing files, a
 * timeout and a failed node.
 */
export const CRUNCH: Scenario = {
  name: "a team on a graph of twelve",
  answers: [
    writes("one", "shared.txt", "by one\n"),
    writes("two", "shared.txt", "by two\n"),
    writes("fix-two", "shared.txt", "by one and two\n"),
    says("three", wants("storage", "use files")),
    says("four", {
      ...wants("storage", "use a database"),
      knowledge: [{ type: "pattern", content: "Files do.", tags: ["storage"] }],
    }),
    says("fails", { status: "FAILED", summary: "It does not work." }),
    says("six", {
      ...wants("sign-in", "use tokens"),
      knowledge: [{ type: "decision", content: "Tokens expire.", tags: ["security"] }],
    }),
    says("seven", wants("sign-in", "use sessions")),
    { when: { role: "late", attempt: 1 }, hang: true, usage },
    says("late"),
    writes("nine", "nine.txt", "nine\n"),
    writes("ten", "ten.txt", "ten\n"),
    says("eleven"),
    stands("system-architect", { choice: "use files" }),
    stands("reviewer", { choice: "use a database", confidence: 30, relevance: 0.5 }),
    stands("security-analyst", {
      choice: "use tokens",
      veto: { severity: "CRITICAL", target: "use sessions", reason: "They can be stolen." },
    }),
    stands("dev-python", { choice: "use sessions" }),
  ],
  claims,
  legs: [leg],
  ci: null,
  moved: null,
  atOnce: true,
  expected: {
    "shared.txt": "by one and two\n",
    "nine.txt": "nine\n",
    "ten.txt": "ten\n",
  },
};
