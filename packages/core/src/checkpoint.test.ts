import fc from "fast-check";
import { expect, test } from "vitest";
import { parsePlanes, parsePosition } from "./checkpoint.ts";
import { type Planes, emptyPlanes } from "./checkpoint.ts";
import type { Json, JsonObject } from "./json.ts";

const full: Planes = {
  ...emptyPlanes({ workflow: "impl", stage: "review" }),
  position: {
    workflow: "impl",
    definition: "ab".repeat(32),
    stage: "review",
    iteration: 3,
    attempts: { review: 2 },
    streaks: { parse: 1 },
    score: 81.5,
    best: { sequence: 4, score: 90 },
    graph: {
      id: "g",
      nodes: [
        {
          id: "a",
          agent: "dev",
          action: "implement",
          dependencies: [],
          priority: "critical",
          timeoutMs: null,
          retries: 1,
          idempotent: false,
          outputs: ["x"],
        },
      ],
      edges: [
        { from: "a", to: "a", type: "data", key: "k" },
        { from: "a", to: "a", type: "sequence" },
        { from: "a", to: "a", type: "approval", by: "qa", approvedAt: null },
      ],
      states: { a: { status: "unknown", attempt: 1, startedAt: "t", endedAt: null, result: { any: [1] } } },
      meta: {},
    },
    budget: {
      spent: { tokens: 1, microUsd: 2, milliseconds: 3 },
      reserved: { tokens: 0, microUsd: 0, milliseconds: 0 },
      limit: { tokens: 10, microUsd: null, milliseconds: 5 },
    },
    feedback: "do better",
    reason: null,
    stageAttempt: { number: 3, steps: { "agent-1": { text: "ok" } }, failures: { push: 2 } },
  },
  context: { values: { deep: { list: [1, null] } }, tokens: { input: 5 } },
  files: {
    tree: "t",
    snapshot: "c",
    ref: "refs/holdfast/r/1",
    worktree: "/w",
    head: null,
    branch: "refs/heads/x",
    base: null,
    artifacts: [{ path: "a", digest: null, status: "deleted" }],
    artifactCount: 1,
    skipped: [{ path: "big", reason: "too_large", bytes: 9 }],
    nested: [{ path: "sub", head: null }],
    index: null,
    operation: "rebase",
  },
  conversation: { agent: "x", session: null, transcript: { digest: "d", bytes: 1, text: "t" }, lastMessage: null },
  effects: { entry: 4, pending: ["k"] },
  inputs: {
    issue: { number: 42, title: "t", body: "b", labels: ["l"], state: "open", updatedAt: "u" },
    task: null,
    base: null,
    plan: { path: "p", digest: "d" },
  },
};

test("empty and full planes are accepted and returned as the same value", () => {
  const empty = emptyPlanes();
  expect(parsePlanes(empty)).toBe(empty);
  expect(parsePlanes(full)).toBe(full);
  expect(parsePosition(full.position)).toBe(full.position);
});

test("changes of one caller's empty planes do not affect the next caller", () => {
  expect(emptyPlanes()).not.toBe(emptyPlanes());
  expect(emptyPlanes().position.attempts).not.toBe(emptyPlanes().position.attempts);
});

test("fields of a newer Holdfast are kept, at every depth", () => {
  const newer = JSON.parse(JSON.stringify(full)) as { position: { budget: JsonObject } } & JsonObject;
  const withMore = {
    ...newer,
    hologram: { x: 1 },
    position: { ...newer.position, mood: "good", budget: { ...newer.position.budget, watts: 7 } },
  };
  const text = JSON.stringify(withMore);
  expect(JSON.stringify(parsePlanes(JSON.parse(text)))).toBe(text);
});

test.each<[string, unknown]>([
  ["/position/stage", { ...full, position: { ...full.position, stage: 7 } }],
  ["/position/iteration", { ...full, position: { ...full.position, iteration: -5 } }],
  ["/position/attempts/a~1b~0", { ...full, position: { ...full.position, attempts: { "a/b~": 1.5 } } }],
  ["/position/best/sequence", { ...full, position: { ...full.position, best: { score: 1 } } }],
  ["/position/score", { ...full, position: { ...full.position, score: Number.NaN } }],
  ["/position/budget/spent/tokens", withSpent(-1)],
  ["/position/budget/spent/tokens", withSpent(2 ** 60)],
  ["/position/graph/nodes/0/priority", withNode({ priority: "urgent" })],
  ["/position/graph/edges/0/type", withEdge({ from: "a", to: "b", type: "magic" })],
  ["/position/graph/edges/0/key", withEdge({ from: "a", to: "b", type: "data" })],
  ["/position/graph/states/a/status", withState({ status: "vanished" })],
  ["/context/tokens", { ...full, context: { values: {}, tokens: [] } }],
  ["/files", { ...full, files: undefined }],
  ["/files/tree", { ...full, files: {} }],
  ["/inputs/issue/state", { ...full, inputs: { ...full.inputs, issue: { ...full.inputs.issue, state: "gone" } } }],
  ["/config/mode", { ...full, config: { ...full.config, mode: "toString" } }],
  ["/extensions", { ...full, extensions: [] }],
  ["", []],
  ["", null],
  ["", "{}"],
])("damage at %j is STORE_CORRUPT with that path", (path, value) => {
  expect(() => parsePlanes(value, "Checkpoint r@7")).toThrow(
    expect.objectContaining({
      code: "STORE_CORRUPT",
      data: expect.objectContaining({ path }),
      message: expect.stringContaining("Checkpoint r@7"),
    }),
  );
});

test("an accepted value can run: agentize read stage 'bogus', iteration -5, issue 'x' without an error", () => {
  for (const damage of [{ iteration: -5 }, { iteration: "1" }, { stage: null }, { attempts: { x: -1 } }]) {
    expect(() => parsePosition({ ...full.position, ...damage })).toThrow(/Position is not what it must be/);
  }
});

test("a missing required member is reported by name", () => {
  const paths = pointersOf(JSON.parse(JSON.stringify(full))).filter(
    (path) =>
      !/^\/(context\/values|extensions|config\/inputs|position\/stageAttempt\/steps)\/|\/result\/|\/(attempts|streaks|tokens|states|failures)\/[^/]+$/.test(
        path,
      ) && !/\/\d+$/.test(path),
  );
  expect(paths.length).toBeGreaterThan(60);
  fc.assert(
    fc.property(fc.constantFrom(...paths), (path) => {
      const copy: unknown = JSON.parse(JSON.stringify(full));
      remove(copy, path);
      expect(() => parsePlanes(copy)).toThrow(
        expect.objectContaining({ code: "STORE_CORRUPT", data: expect.objectContaining({ path }) }),
      );
    }),
    { numRuns: 200 },
  );
});

test("any JSON is either accepted unchanged or refused as STORE_CORRUPT", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(...Object.keys(full)), (value, key) => {
      const planes = { ...full, [key]: value };
      let parsed: Planes;
      try {
        parsed = parsePlanes(planes);
      } catch (error) {
        expect(error).toMatchObject({ code: "STORE_CORRUPT" });
        return;
      }
      expect(parsed).toBe(planes);
    }),
  );
});

function withSpent(tokens: number) {
  const budget = { ...full.position.budget, spent: { ...full.position.budget.spent, tokens } };
  return { ...full, position: { ...full.position, budget } };
}

function withGraph(change: JsonObject) {
  return { ...full, position: { ...full.position, graph: { ...full.position.graph, ...change } } };
}

function withNode(change: JsonObject) {
  return withGraph({ nodes: [{ ...toJson(full.position.graph?.nodes[0]), ...change }] });
}

function withEdge(edge: JsonObject) {
  return withGraph({ edges: [edge] });
}

function withState(change: JsonObject) {
  return withGraph({ states: { a: { ...toJson(full.position.graph?.states["a"]), ...change } } });
}

function toJson(value: unknown): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

function pointersOf(value: Json, at = ""): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => [`${at}/${key}`, ...pointersOf(below, `${at}/${key}`)]);
}

function remove(value: unknown, path: string): void {
  const keys = path.split("/").slice(1);
  const last = keys.pop() ?? "";
  let holder = value as Record<string, unknown>;
  for (const key of keys) holder = holder[key] as Record<string, unknown>;
  delete holder[last];
}
