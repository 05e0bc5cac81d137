import { describe, expect, test } from "vitest";
import { planEntry } from "./stages.ts";

const plan = (labels: readonly string[], state: "open" | "closed" = "open") => planEntry({ number: 7, labels, state });

describe("the first stage by the issue's labels", () => {
  test.each([[[]], [["state:backlog"]], [["state:enrich", "urgent"]]])("%j is enriched", (labels) => {
    expect(plan(labels)).toEqual({ kind: "enrich" });
  });
  test.each(["ready", "implementing", "e2e", "docs", "ready-to-merge"] as const)("state:%s is not", (phase) => {
    expect(plan([`state:${phase}`])).toEqual({ kind: "enriched", phase });
  });
  test("the old name of e2e is not a second phase", () => {
    expect(plan(["state:validation", "state:e2e"])).toEqual({ kind: "enriched", phase: "e2e" });
  });
  test("two phases are a question; done and closed issues have ended", () => {
    expect(plan(["state:ready", "state:docs"])).toEqual({ kind: "ask", phases: ["ready", "docs"] });
    expect(plan(["state:done"]).kind).toBe("over");
    expect(plan([], "closed").kind).toBe("over");
  });
});
