import { describe, expect, test } from "vitest";
import { seedCheckpoint } from "./seed-checkpoint.ts";
import { initialImplState } from "./state.ts";
import type { HistoryEntry, ImplState } from "./state.ts";

const entry = (
  stage: string,
  event: string,
  result: HistoryEntry["result"],
  score: number | null = null,
): HistoryEntry => ({
  stage,
  iteration: 1,
  timestamp: "2025-01-15T10:00:00.000Z",
  result,
  event,
  reason: "r",
  score,
});
const state: ImplState = {
  ...initialImplState,
  issue: { number: 42, title: "t", body: "", labels: [], state: "open", updatedAt: "" },
  pullRequest: { number: 9, url: "http://x/9" },
  history: [
    entry("setup", "setup_done", "success"),
    entry("impl", "parse_fail", "retry"),
    entry("impl", "impl_done", "success"),
    entry("review", "review_fail", "retry", 60),
    entry("ci", "ci_fail", "retry"),
  ],
};
const position = { stage: "review", iteration: 3, feedback: "more tests", score: 75 };
const mirror = (given: Partial<Parameters<typeof seedCheckpoint>[0]> = {}) =>
  seedCheckpoint({
    position,
    state,
    worktree: "/w",
    planFile: null,
    simplify: false,
    at: Date.UTC(2025, 0, 15, 10, 30),
    ...given,
  });

describe("the mirror of a run for older tools", () => {
  test("is their envelope, version 1, in UTC throughout", () => {
    expect(mirror()).toEqual({
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
        history: [
          {
            stage: "parse",
            iteration: 1,
            timestamp: "2025-01-15T10:00:00.000+00:00",
            result: "retry",
            score: null,
            event: "parse_fail",
          },
          {
            stage: "impl",
            iteration: 1,
            timestamp: "2025-01-15T10:00:00.000+00:00",
            result: "success",
            score: null,
            event: "impl_done",
          },
          {
            stage: "review",
            iteration: 1,
            timestamp: "2025-01-15T10:00:00.000+00:00",
            result: "retry",
            score: 60,
            event: "review_fail",
          },
          {
            stage: "pr",
            iteration: 1,
            timestamp: "2025-01-15T10:00:00.000+00:00",
            result: "retry",
            score: null,
            event: "ci_fail",
          },
        ],
        pr_number: "9",
        pr_url: "http://x/9",
      },
    });
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
  ])("our stage %s is theirs %s", (stage, theirs) => {
    expect(mirror({ position: { ...position, stage } })).toMatchObject({ state: { current_stage: theirs } });
  });

  test("with simplify it is their version 2", () => {
    expect(mirror({ simplify: true })["version"]).toBe(2);
  });

  test("before anything happened it is still one that can be read", () => {
    const first = { stage: "setup", iteration: 0, feedback: null, score: null };
    expect(mirror({ position: first, state: initialImplState })).toMatchObject({
      state: { iteration: 1, last_feedback: "", last_score: 0, history: [], pr_number: null },
    });
  });
});
