import { describe, expect, test } from "vitest";
import { acpUsage } from "./usage.ts";

describe("usage is of this call alone", () => {
  const nothing = { answer: null, agent: "x", isNew: true, costBefore: null, costNow: null };
  const answer = { usage: { inputTokens: 30, outputTokens: 4, cachedReadTokens: 6, totalTokens: 40 } };

  test.each([
    ["nothing told", nothing, [null, null, null]],
    ["cached tokens beside the input", { ...nothing, answer }, [36, 4, null]],
    ["and within it", { ...nothing, answer: { usage: { ...answer.usage, totalTokens: 34 } } }, [30, 4, null]],
    ["a session that goes on: turn or session, nobody knows", { ...nothing, answer, isNew: false }, [null, null, null]],
    ["one that tells its last request only", { ...nothing, answer, agent: "OpenCode" }, [null, null, null]],
    ["money of a new session", { ...nothing, costNow: 70 }, [null, null, 70]],
    ["less what it had cost before", { ...nothing, isNew: false, costBefore: 50, costNow: 70 }, [null, null, 20]],
    ["which was not told", { ...nothing, isNew: false, costNow: 70 }, [null, null, null]],
  ])("%s", (_, given, [inputTokens, outputTokens, microUsd]) => {
    expect(acpUsage(given)).toEqual({ inputTokens, outputTokens, microUsd });
  });
});
