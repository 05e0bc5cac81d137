import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { attachSourceDocument } from "@holdfast/formats/format";
import { implJson } from "@holdfast/formats/impl-json";
import { implDocument } from "./layout.ts";
import { initialImplState } from "./state.ts";

const entry = (stage: string, event: string, result: string, score: number | null = null): JsonObject => ({
  stage,
  iteration: 1,
  timestamp: "2025-01-15T10:00:00.000Z",
  result,
  event,
  reason: "r",
  score,
});
const values: JsonObject = {
  ...initialImplState,
  pullRequest: { number: 9, url: "http://x/9" },
  history: [
    entry("setup", "setup_done", "success"),
    entry("impl", "parse_fail", "retry"),
    entry("impl", "impl_done", "success"),
    entry("review", "review_fail", "retry", 60),
    entry("ci", "ci_fail", "retry"),
  ],
};
const base = emptyPlanes({ workflow: "impl", stage: "review" });
const position = { ...base.position, iteration: 3, feedback: "more tests", score: 75 };
type Params = Parameters<typeof implDocument>[0];

const written = (planes: Partial<Params["planes"]> = {}, given: Partial<Params> = {}) => {
  const text = implDocument({
    run: { workflow: "impl", work: { kind: "issue", number: 42 } },
    planes: { position, inputs: base.inputs, extensions: {}, values, ...planes },
    worktree: "/w",
    simplifies: false,
    at: "2025-01-15T10:30:00.000Z",
    ...given,
  });
  // The codec must be able to read every written document.
  implJson.decode({ path: "a.json", bytes: new TextEncoder().encode(text), compression: "none" });
  return JSON.parse(text);
};

describe("the document that an impl run keeps for older tools", () => {
  test("has their envelope, version 1, in UTC throughout, without our other stages", () => {
    const document = written();
    expect(document).toMatchObject({
      version: 1,
      timestamp: "2025-01-15T10:30:00.000+00:00",
      state: {
        issue_no: 42,
        current_stage: "review",
        iteration: 3,
        worktree: "/w",
        plan_file: null,
        last_feedback: "more tests",
        last_score: 75,
        pr_number: "9",
        pr_url: "http://x/9",
      },
    });
    expect(document.state.history).toMatchObject([
      { stage: "parse", result: "retry", timestamp: "2025-01-15T10:00:00.000+00:00", event: "parse_fail" },
      { stage: "impl", result: "success" },
      { stage: "review", result: "retry", score: 60 },
      { stage: "ci", event: "ci_fail" },
    ]);
    expect(document.state.history).toHaveLength(4);
  });

  test.each([
    ["setup", "impl"],
    ["impl", "impl"],
    ["review", "review"],
    ["simplify", "simp"],
    ["pr", "pr"],
    ["ci", "pr"],
    ["rebase", "rebase"],
    ["done", "done"],
    ["fatal", "fatal"],
  ])("our stage %s is written as %s", (stage, theirs) => {
    expect(written({ position: { ...position, stage } }).state.current_stage).toBe(theirs);
  });

  test("of a run that simplifies it is version 2 from the beginning", () => {
    expect(written({}, { simplifies: true }).version).toBe(2);
  });

  test("is valid before any event", () => {
    const first = { ...position, stage: "setup", iteration: 0, feedback: null, score: null };
    expect(written({ position: first, values: initialImplState }).state).toMatchObject({
      issue_no: 42,
      iteration: 1,
      last_feedback: "",
      last_score: 0,
      history: [],
      pr_number: null,
    });
  });

  test("of an imported run it has its unknown fields and the plan file, but this worktree", () => {
    const theirs = written();
    theirs.state.their_own = { keep: ["this"] };
    theirs.state.plan_file = "plan.md";
    theirs.state.worktree = "/elsewhere";
    const bytes = new TextEncoder().encode(JSON.stringify(theirs));
    const [external] = implJson.decode({ path: "a.json", bytes, compression: "none" }).checkpoints;
    if (external === undefined) throw new Error("it has no checkpoint");
    const { extensions } = attachSourceDocument(external, "impl-json", 1);
    expect(written({ extensions }).state).toMatchObject({
      their_own: { keep: ["this"] },
      plan_file: "plan.md",
      worktree: "/w",
    });
  });
});
