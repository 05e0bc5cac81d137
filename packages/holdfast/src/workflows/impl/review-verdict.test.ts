import { createFence } from "../../core/agent/fence.ts";
import { describe, expect, test } from "vitest";
import { defaultImplOptions } from "./options.ts";
import { reviewPrompt } from "./review-prompt.ts";
import { DEFAULT_TEMPLATES } from "./default-templates.ts";
import { reviewReport } from "./review-report.ts";
import { judgeReview, reviewFeedback, reviewReason } from "./review-verdict.ts";
import type { Scores } from "./state.ts";

const { thresholds } = defaultImplOptions;
const judge = (scores: Scores, suggestions: readonly string[] = [], score = 93) =>
  judgeReview({ reply: { kind: "read", scores, score, findings: ["f"], suggestions }, thresholds, iteration: 2 });

describe("the verdict of a review", () => {
  test("at the thresholds it passes", () => {
    expect(judge({ faithful: 90, style: 85, docs: 85, cornerCases: 85 }).pass).toBe(true);
  });

  test.each([
    [{ faithful: 89, style: 85, docs: 85, cornerCases: 85 }, "faithful=89<90"],
    [{ faithful: 90, style: 84, docs: 85, cornerCases: 85 }, "style=84<85"],
    [{ faithful: 90, style: 85, docs: 0, cornerCases: 84 }, "docs=0<85, corner_cases=84<85"],
  ])("%j fails, whatever the overall score, and gets a suggestion made from it", (scores, text) => {
    const review = judge(scores);
    expect(review).toMatchObject({ pass: false, score: 93 });
    expect(review.suggestions).toEqual([expect.stringContaining(text)]);
    expect(reviewReason(review, thresholds)).toContain(text);
  });

  test("the reviewer's own suggestions are kept and reach the next prompt", () => {
    const review = judge({ faithful: 10, style: 85, docs: 85, cornerCases: 85 }, ["Do z"]);
    expect(review.suggestions).toEqual(["Do z"]);
    expect(reviewFeedback(review, thresholds)).toMatch(/faithful=10<90[^]*- Do z[^]*- f/);
  });

  test("a reply that cannot be read fails with that reason and without a score", () => {
    const review = judgeReview({ reply: { kind: "unreadable", why: "gibberish" }, thresholds, iteration: 1 });
    expect(review).toMatchObject({ pass: false, score: null, scores: null });
    expect(reviewReason(review, thresholds)).toContain("gibberish");
    expect(reviewReport(review)).toMatchObject({ pass: false, scores: null, overall_score: null });
  });

  test("the report spells what its readers know", () => {
    expect(reviewReport(judge({ faithful: 90, style: 85, docs: 85, cornerCases: 86 }))).toEqual({
      scores: { faithful: 90, style: 85, docs: 85, corner_cases: 86 },
      overall_score: 93,
      pass: true,
      findings: ["f"],
      suggestions: [],
      raw_output_path: ".tmp/review-output-2.txt",
    });
  });
});

describe("chat output reviewed instead of the diff", () => {
  const params = {
    template: DEFAULT_TEMPLATES.review,
    issue: { number: 42, title: "T", body: "The order", labels: [], state: "open" as const, updatedAt: "" },
    thresholds,
    diff: { text: "+the change {{issue_text}}", cut: false },
    base: "abc",
    unreadable: null,
    fence: createFence("nonce"),
  };
  test("the reviewer gets issue and diff", () => {
    const prompt = reviewPrompt(params);
    expect(prompt).toContain("The order");
    expect(prompt).toContain("+the change {{issue_text}}");
    expect(prompt).toContain("faithful 90, style 85, docs 85, corner_cases 85");
    expect(prompt).not.toContain("could not be read");
  });
  test("asked again it hears why, and a cut diff says so", () => {
    const prompt = reviewPrompt({
      ...params,
      diff: { text: "d", cut: true },
      unreadable: { reply: "LGTM", why: "there is no JSON object in it" },
    });
    expect(prompt).toMatch(/could not be read: <data-nonce source="error">there is no JSON[^]*LGTM/);
    expect(prompt).toContain("git diff abc");
  });
});
