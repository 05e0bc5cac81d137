import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Position } from "@holdfast/core/position";
import { defaultCrunchOptions } from "./options.ts";
import { crunchGuard } from "./workflow.ts";

const at = (stage: string, rest: Partial<Position> = {}): Position => ({
  ...emptyPlanes({ workflow: "crunch", stage }).position,
  ...rest,
});
const guard = (position: Position, event: string, limits = defaultCrunchOptions.limits) =>
  crunchGuard({ limits })({ position, result: { event, reason: "so" } });

describe("the guard", () => {
  test("counts how often each phase is entered, and the rounds of implementing", () => {
    const { position } = guard(at("ready", { attempts: { implementing: 1 }, iteration: 1 }), "accepted");
    expect(position).toMatchObject({ attempts: { implementing: 2 }, iteration: 2 });
    expect(guard(at("docs"), "documented").position).toMatchObject({ attempts: { "ready-to-merge": 1 }, iteration: 0 });
    expect(guard(at("docs"), "at_target").position.attempts).toEqual({});
  });
  test("work sent back more often than allowed is fatal, with the true reason", () => {
    const limits = { ...defaultCrunchOptions.limits, e2eFailures: 2 };
    const third = at("e2e", { attempts: { "e2e-failures": 2 } });
    expect(guard(at("e2e", { attempts: { "e2e-failures": 1 } }), "e2e_fail", limits).result.event).toBe("e2e_fail");
    expect(guard(third, "e2e_fail", limits).result).toMatchObject({
      event: "fatal",
      reason: expect.stringContaining("so"),
    });
    expect(guard(at("ready-to-merge", third), "push_refused", limits).result.event).toBe("fatal");
    expect(guard(third, "e2e_pass", limits).result.event).toBe("e2e_pass");
  });
});
