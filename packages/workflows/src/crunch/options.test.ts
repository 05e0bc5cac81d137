import { describe, expect, test } from "vitest";
import { defaultCrunchOptions, parseCrunchOptions } from "./options.ts";

describe("options of crunch", () => {
  test("no options are the defaults, and stored options parse to the same", () => {
    expect(parseCrunchOptions({})).toEqual(defaultCrunchOptions);
    const given = {
      target: "validation",
      type: "bug",
      maxParallel: 1,
      models: { quality: "claude:haiku", security: "codex" },
      gate: "make",
    };
    const parsed = parseCrunchOptions(given);
    expect(parsed).toMatchObject({ target: "e2e", gate: { command: "make", timeoutMs: 600_000 } });
    expect(parseCrunchOptions(parsed)).toEqual(parsed);
  });
  test.each([
    [{ target: "backlog" }, /target/],
    [{ target: 3 }, /target/],
    [{ type: "decomposition" }, /type/],
    [{ maxParallel: 0 }, /maxParallel/],
    [{ models: { quality: "command" } }, /models.quality/],
    [{ limits: { e2eFailures: -1 } }, /e2eFailures/],
    [{ parallel: 2 }, /no option "parallel"/],
    [{ settings: { agents: {} } }, /settings of crunch/],
  ])("%j is refused", (given, message) => {
    expect(() => parseCrunchOptions(given)).toThrow(message);
  });
});
