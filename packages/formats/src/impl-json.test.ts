import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { unknownFields, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import { formatSuite, jsonCorruptions, readGoldens } from "@holdfast/test-support/formats/format-suite";
import type { ExternalCheckpoint, ExternalFile } from "./format.ts";
import { implJson } from "./impl-json.ts";

const utf8 = new TextEncoder();
const file = (document: unknown): ExternalFile => ({
  path: ".tmp/impl-checkpoint.json",
  bytes: utf8.encode(typeof document === "string" ? document : JSON.stringify(document, null, 2)),
  compression: "none",
});
const state = { issue_no: 42, current_stage: "impl", iteration: 1, worktree: "/w" };
const decode = (given: JsonObject, version: unknown = 2) =>
  implJson.decode(file({ version, timestamp: "2026-01-01T00:00:00+00:00", state: { ...state, ...given } }));
const one = (given: JsonObject): ExternalCheckpoint => {
  const [checkpoint] = decode(given).checkpoints;
  if (checkpoint === undefined) throw new Error("No checkpoint");
  return checkpoint;
};
const written = (checkpoint: ExternalCheckpoint): JsonObject =>
  JSON.parse(new TextDecoder().decode(implJson.encode(checkpoint).bytes));

const times = fc.constantFrom(
  "2025-01-15T10:00:00",
  "2025-01-15T10:00:00.123456",
  "2025-01-15T10:00:00+00:00",
  "2025-01-15 10:00:00Z",
  "2025-06-15T10:00:00.5+05:30",
  "soon",
);
const maybe = { requiredKeys: [] };
const entries = fc.record(
  {
    stage: fc.constantFrom("impl", "parse", "review", "simp", "pr", "ci", "rebase", "deploy"),
    iteration: fc.nat(9),
    timestamp: times,
    result: fc.constantFrom("success", "retry", "failure", "pass", "fail", "incomplete", "ci_fix", "pr_pass", "odd"),
    score: fc.option(fc.nat(100)),
    artifact: fc.option(word),
    event: fc.constantFrom("parse_fail", "ci_fail", "ci_pass", "impl_done"),
    reason: word,
  },
  maybe,
);
const states = fc.record(
  {
    issue_no: fc.nat(999),
    current_stage: fc.constantFrom("impl", "review", "simp", "pr", "rebase", "fatal", "done", "finish"),
    iteration: fc.integer({ min: 1, max: 9 }),
    worktree: fc.string(),
    plan_file: fc.option(fc.string()),
    last_feedback: fc.string(),
    last_score: fc.nat(100),
    history: fc.array(withUnknown(entries), { maxLength: 5 }),
    pr_number: fc.option(fc.oneof(fc.integer({ min: 1, max: 99 }), fc.nat(99).map(String), word)),
    pr_url: fc.option(fc.constantFrom("https://forge.example/o/r/pull/7", "https://forge.example", "")),
  },
  { requiredKeys: ["issue_no", "current_stage", "iteration", "worktree"] },
);
const documents = fc.record(
  { version: fc.constantFrom(1, 2), timestamp: times, state: withUnknown(states) },
  { requiredKeys: ["version", "state"] },
);

function withUnknown<T extends object>(known: fc.Arbitrary<T>): fc.Arbitrary<object> {
  return fc
    .tuple(known, unknownFields(), fc.boolean())
    .map(([fields, unknown, first]) => (first ? { ...unknown, ...fields } : { ...fields, ...unknown }));
}

const misfit = (path: string, value: JsonObject[string], golden = "seed-example.json") => ({ golden, path, value });
const [example] = readGoldens().filter(
  (golden) => golden.format === "impl-json" && golden.name === "seed-example.json",
);

formatSuite({
  format: implJson,
  files: withUnknown(documents).map(file),
  parse: (bytes) => JSON.parse(new TextDecoder().decode(bytes)),
  write: (document) => utf8.encode(JSON.stringify(document)),
  endsAreMarked: true,
  normalised: [],
  misfits: [
    misfit("/version", "1"),
    misfit("/version", 0),
    misfit("/version", 1.5),
    misfit("/version", null),
    misfit("/timestamp", 1736937000),
    misfit("/state", []),
    misfit("/state", null),
    misfit("/state/issue_no", "x"),
    misfit("/state/issue_no", -1),
    misfit("/state/issue_no", true),
    misfit("/state/current_stage", "bogus"),
    misfit("/state/current_stage", "toString"),
    misfit("/state/current_stage", null),
    misfit("/state/iteration", -5),
    misfit("/state/iteration", 0),
    misfit("/state/iteration", 1.5),
    misfit("/state/iteration", "3"),
    misfit("/state/worktree", null),
    misfit("/state/plan_file", 3),
    misfit("/state/last_feedback", null),
    misfit("/state/last_score", 101),
    misfit("/state/last_score", "75"),
    misfit("/state/history", {}),
    misfit("/state/history/1", "review"),
    misfit("/state/history/0/stage", 1),
    misfit("/state/history/0/iteration", "1"),
    misfit("/state/history/0/timestamp", 0),
    misfit("/state/history/0/result", null),
    misfit("/state/history/1/score", "60"),
    misfit("/state/history/1/artifact", 1),
    misfit("/state/pr_number", 1.5, "finish.json"),
    misfit("/state/pr_number", [], "finish.json"),
    misfit("/state/pr_url", 961, "finish.json"),
  ],
  corruptions: [
    ...(example === undefined ? [] : jsonCorruptions(example)),
    { name: "a later version", file: file({ version: 3, state: {} }), code: "FORMAT_TOO_NEW" },
    { name: "a much later version", file: file({ version: 1e9, future: true }), code: "FORMAT_TOO_NEW" },
    { name: "no version", file: file({ state }), code: "FORMAT_INVALID" },
    { name: "no state", file: file({ version: 2 }), code: "FORMAT_INVALID" },
    ...Object.keys(state).map((key) => ({
      name: `without ${key}`,
      file: file({ version: 1, state: Object.fromEntries(Object.entries(state).filter(([name]) => name !== key)) }),
      code: "FORMAT_INVALID" as const,
    })),
  ],
});

describe("errors have the names of the tool", () => {
  const said = (document: unknown): string => {
    try {
      implJson.decode(file(document));
    } catch (error) {
      if (error instanceof HoldfastError) return error.message;
    }
    return "nothing";
  };
  test.each([
    ['{"version": 1', "Corrupted checkpoint file"],
    [
      { version: 3, state },
      "Checkpoint version mismatch in .tmp/impl-checkpoint.json (impl-json): expected 1 or 2, got 3",
    ],
    [{ state }, "version mismatch: expected 1 or 2, got none"],
    [{ version: 1, state: { ...state, iteration: null } }, "Invalid checkpoint data"],
  ])("%j", (document, message) => {
    expect(said(document)).toContain(message);
  });
});

describe("a run that continues from it", () => {
  test.each([
    ["impl", "impl"],
    ["review", "review"],
    ["simp", "simplify"],
    ["pr", "pr"],
    ["rebase", "rebase"],
    ["fatal", "fatal"],
    ["done", "done"],
    ["finish", "done"],
  ])("%s is our stage %s", (current_stage, stage) => {
    const checkpoint = one({ current_stage, iteration: 4, last_feedback: "more tests", last_score: 75 });
    expect(checkpoint).toMatchObject({ workflow: "impl", work: { kind: "issue", number: 42 } });
    expect(checkpoint.planes.position).toMatchObject({ stage, iteration: 4, feedback: "more tests", score: 75 });
    expect(written(checkpoint)["state"]).toMatchObject({ current_stage });
  });

  test("a run that ended keeps its reason", () => {
    const { position } = one({ current_stage: "fatal", last_feedback: "Max iteration limit (7) reached" }).planes;
    expect(position.reason).toBe("Max iteration limit (7) reached");
  });

  test("limits are not bypassed: counters come from the history", () => {
    const entry = (stage: string, result: string, score: number | null = null, iteration = 1) => ({
      stage,
      iteration,
      result,
      score,
    });
    const history = [
      entry("impl", "success"),
      entry("parse", "fail"),
      entry("impl", "success", null, 2),
      entry("parse", "fail", null, 2),
      entry("impl", "success", null, 3),
      entry("parse", "pass", null, 3),
      entry("review", "retry", 60, 3),
      entry("review", "retry", 70, 4),
      entry("review", "retry", 70, 5),
      entry("review", "retry", 65, 6),
      entry("pr", "pr_fail_fixable"),
      entry("pr", "pr_fail_need_rebase"),
      entry("rebase", "rebase_ok"),
      entry("impl", "success", null, 7),
      entry("parse", "fail", null, 7),
    ];
    expect(one({ history }).planes.position).toMatchObject({
      attempts: { review: 4, pr: 2, rebase: 1 },
      streaks: { review: 3, parse: 1 },
    });
  });

  test.each([
    [
      { pr_number: "961", pr_url: "https://x/pull/961" },
      { number: 961, url: "https://x/pull/961" },
    ],
    [{ pr_number: 961 }, { number: 961, url: "" }],
    [{ pr_url: "https://x/pull/961" }, { number: 961, url: "https://x/pull/961" }],
    [{ pr_number: null, pr_url: null }, null],
    [{ pr_number: "draft" }, null],
    [{}, null],
  ])("pull request %j", (given, pullRequest) => {
    expect(one(given).planes.context.values["pullRequest"]).toEqual(pullRequest);
  });

  test("new events are added, and existing content keeps its spelling", () => {
    const history = [{ result: "incomplete", stage: "impl", extra: [1] }];
    const checkpoint = one({ history, current_stage: "pr", unknown: { deep: true } });
    const { planes } = checkpoint;
    const past = planes.context.values["history"];
    const added = {
      stage: "ci",
      iteration: 2,
      timestamp: "2026-01-02T00:00:00.000Z",
      result: "retry",
      event: "ci_fail",
      reason: "red",
      score: null,
    };
    const later: ExternalCheckpoint = {
      ...checkpoint,
      createdAt: "2026-01-02T00:00:01.000Z",
      planes: {
        ...planes,
        position: { ...planes.position, stage: "impl", iteration: 2 },
        context: {
          ...planes.context,
          values: {
            ...planes.context.values,
            pullRequest: { number: 5, url: "https://x/5" },
            history: [...(Array.isArray(past) ? past : []), added],
          },
        },
      },
    };
    expect(written(later)).toEqual({
      version: 2,
      timestamp: "2026-01-02T00:00:01.000+00:00",
      state: {
        ...state,
        iteration: 2,
        history: [
          ...history,
          {
            stage: "ci",
            iteration: 2,
            timestamp: "2026-01-02T00:00:00.000+00:00",
            result: "retry",
            score: null,
            event: "ci_fail",
            reason: "red",
          },
        ],
        current_stage: "impl",
        unknown: { deep: true },
        pr_number: "5",
        pr_url: "https://x/5",
      },
    });
    expect(implJson.encode(later).losses).toEqual([]);
  });

  test("a Holdfast run becomes a complete file, with the required version", () => {
    const planes = emptyPlanes({ workflow: "impl", stage: "review" });
    const ours: ExternalCheckpoint = {
      id: null,
      createdAt: "2026-01-02T00:00:01.000Z",
      trigger: "stage",
      workflow: "impl",
      work: { kind: "issue", number: 42 },
      planes: {
        ...planes,
        position: { ...planes.position, iteration: 1 },
        extensions: { "impl-json": { version: 2, worktree: "/w", plan_file: null } },
      },
      original: null,
    };
    expect(written(ours)).toEqual({
      version: 2,
      timestamp: "2026-01-02T00:00:01.000+00:00",
      state: {
        issue_no: 42,
        current_stage: "review",
        iteration: 1,
        worktree: "/w",
        plan_file: null,
        last_feedback: "",
        last_score: 0,
        history: [],
        pr_number: null,
        pr_url: null,
      },
    });
    expect(implJson.encode(ours)).toMatchObject({ losses: [], path: ".tmp/impl-checkpoint.json" });
  });
});

test("unusual content causes a remark", () => {
  expect(decode({}).remarks).toEqual([]);
  expect(decode({ current_stage: "simp" }, 1).remarks.map(({ path }) => path)).toEqual(["/state/current_stage"]);
  const odd = implJson.decode(
    file({
      version: 1,
      timestamp: "2025-01-15T10:30:00",
      state: { ...state, issue_no: 0, worktree: "", history: [{}] },
    }),
  );
  // No issue and no worktree are documented values, which Holdfast writes itself.
  expect(odd.remarks.map(({ path }) => path)).toEqual(["/timestamp", "/state/history"]);
});
