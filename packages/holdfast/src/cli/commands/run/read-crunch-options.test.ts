import { describe, expect, test } from "vitest";
import { DEFAULT_WORK } from "../../../config/work-settings.ts";
import { parseArguments } from "../../parse-arguments.ts";
import { oldSpellings, readRequest } from "./read-request.ts";
import { runSpec } from "./spec.ts";

const input = (...words: readonly string[]) => parseArguments(runSpec, ["--workflow", "crunch", ...words]).input;
const request = (...words: readonly string[]) => readRequest(input(...words), DEFAULT_WORK);

describe("what is asked of the crunch workflow", () => {
  test("every flag reaches its option", () => {
    const words =
      "42 --target docs --type bug --max-parallel 5 --model quality=claude:haiku --model dev-go=codex:gpt-5 --gate make --base dev --yolo --draft";
    expect(request(...words.split(" "))).toMatchObject({
      workflow: "crunch",
      work: { kind: "issue", number: 42 },
      options: {
        target: "docs",
        type: "bug",
        maxParallel: 5,
        models: { quality: "claude:haiku", "dev-go": "codex:gpt-5" },
        gate: "make",
        baseBranch: "dev",
        yolo: true,
        draft: true,
      },
    });
  });
  test("crunch's own spellings mean the same and are told", () => {
    const old = input("-i", "5", "-t", "validation");
    expect(readRequest(old, DEFAULT_WORK)).toMatchObject({
      work: { kind: "issue", number: 5 },
      options: { target: "validation" },
    });
    expect(oldSpellings(old)).toEqual([
      "--issue is an old spelling: write the number alone",
      "-t validation is an old spelling: write --target validation",
    ]);
    expect(request("--input", "Fix it").work).toEqual({ kind: "task", text: "Fix it" });
  });
  test.each([
    [["4", "-t", "make it fast"], /Both an issue and --task/],
    [["4", "--model", "haiku"], /--model cannot be "haiku"/],
    [["4", "--max-parallel", "many"], /max-parallel/],
  ])("%j is refused", (words, message) => {
    expect(() => request(...words)).toThrow(message);
  });
  test("another workflow does not pretend to heed them", () => {
    const other = parseArguments(runSpec, ["4", "--target", "docs"]).input;
    expect(() => readRequest(other, DEFAULT_WORK)).toThrow(/--target means something to the crunch workflow only/);
  });
});
