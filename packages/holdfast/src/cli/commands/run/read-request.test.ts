import { describe, expect, test } from "vitest";
import { DEFAULT_WORK } from "../../../config/work-settings.ts";
import { parseArguments } from "../../parse-arguments.ts";
import { oldSpellings, readRequest } from "./read-request.ts";
import { runSpec } from "./spec.ts";

const input = (...words: readonly string[]) => parseArguments(runSpec, words).input;
const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);

describe("readRequest", () => {
  test("without flags it is what the config says", () => {
    expect(request("42")).toMatchObject({
      work: { kind: "issue", number: 42 },
      workflow: "impl",
      agent: null,
      options: { maxIterations: 10, maxReviews: 8, review: true, simplify: false, yolo: false, implModel: null },
      limit: { tokens: null, microUsd: null, milliseconds: null },
    });
  });

  test("every flag reaches its option", () => {
    const words =
      "#42 -a command:a --impl-model command:b --review-model command:c --max-iterations 3 --max-reviews 2 --no-review --simplify --gate make --base dev --draft --wait-for-ci --ignore-reviews --yolo --max-tokens 5 --max-cost 2.5 --max-total-time 2h --max-time 90m";
    expect(request(...words.split(" "))).toMatchObject({
      agent: "command:a",
      options: {
        maxIterations: 3,
        maxReviews: 2,
        review: false,
        simplify: true,
        yolo: true,
        waitForCi: true,
        heedReviews: false,
        draft: true,
        implModel: "command:b",
        reviewModel: "command:c",
        gate: "make",
        baseBranch: "dev",
      },
      limit: { tokens: 5, microUsd: 2_500_000, milliseconds: 7_200_000 },
      sessionMs: 5_400_000,
    });
  });

  test("the config's values stand where no flag is, and none lifts a limit", () => {
    const settings = {
      ...DEFAULT_WORK,
      agent: "command:x",
      impl: { ...DEFAULT_WORK.impl, review: false, tags: ["a"] },
      budget: { tokens: 9, microUsd: 9, milliseconds: 9 },
    };
    expect(readRequest(input("1", "--review", "--max-tokens", "none"), settings)).toMatchObject({
      agent: "command:x",
      options: { review: true, tags: ["a"] },
      limit: { tokens: null, microUsd: 9, milliseconds: 9 },
    });
  });

  test("--agent replaces the models of the config, and each model flag beats it for its role", () => {
    const settings = {
      ...DEFAULT_WORK,
      models: { impl: "command:file-impl", review: "command:file-review" },
      impl: { ...DEFAULT_WORK.impl, yolo: true },
    };
    const models = (...words: readonly string[]) => readRequest(input("1", ...words), settings).options;
    expect(models()).toMatchObject({ implModel: "command:file-impl", reviewModel: "command:file-review", yolo: true });
    expect(models("-a", "command:x")).toMatchObject({ implModel: null, reviewModel: null });
    expect(models("-a", "command:x", "--impl-model", "command:y")).toMatchObject({
      implModel: "command:y",
      reviewModel: "command:x",
    });
    expect(models("-a", "command:x", "--review-model", "command:y")).toMatchObject({
      implModel: null,
      reviewModel: "command:y",
    });
    expect(models("--no-yolo")).toMatchObject({ yolo: false });
    expect(() => models("--yolo", "--no-yolo")).toThrow(/Both --yolo and --no-yolo/);
  });

  test("old spellings mean the same and are told", () => {
    const old = input("7", "--backend", "command:a", "--max-iter", "2", "--enable-review", "--enable-simp");
    expect(readRequest(old, DEFAULT_WORK)).toEqual(
      request("7", "--impl-model", "command:a", "--max-iterations", "2", "--review", "--simplify"),
    );
    expect(oldSpellings(old)).toEqual([
      "--backend is an old spelling: write --impl-model",
      "--max-iter is an old spelling: write --max-iterations",
      "--enable-review is an old spelling: write --review",
      "--enable-simp is an old spelling: write --simplify",
    ]);
  });

  test.each([
    [[], /What shall be worked on/],
    [["fix it"], /"fix it" is no issue number/],
    [["0"], /no issue number/],
    [["4", "--task", "x"], /Both an issue and --task/],
    [["--task", " "], /--task is empty/],
    [["4", "--review", "--no-review"], /Both --review and --no-review/],
    [["4", "--backend", "a:b", "--impl-model", "a:b"], /Both --impl-model and --backend/],
    [["4", "--agent", "claude:"], /--agent cannot be "claude:"/],
    [["4", "--agent", "my agent"], /--agent cannot be "my agent"/],
    [["4", "--max-iterations", "0"], /would do nothing/],
    [["4", "--max-cost", "much"], /--max-cost cannot be "much"/],
    [["4", "--max-time", "0s"], /--max-time cannot be "0s"/],
    [["4", "--max-total-time", "0s"], /--max-total-time cannot be "0s"/],
  ])("%j is refused", (words, message) => {
    expect(() => request(...words)).toThrow(message);
  });
});
