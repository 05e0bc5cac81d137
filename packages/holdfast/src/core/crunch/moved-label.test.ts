import { describe, expect, test } from "vitest";
import { movedLabel } from "./moved-label.ts";

const own = [["type:bug", "state:implementing"]];
const at = { own, entering: "e2e", agreed: null } as const;

describe("a state label that somebody moved", () => {
  test.each([
    ["forth", ["state:docs"], { says: "state:docs", follows: "docs" }],
    ["back", ["state:ready", "type:bug"], { says: "state:ready", follows: "ready" }],
    ["to where no run works", ["state:backlog"], { says: "state:backlog", follows: null }],
    ["away", ["type:bug"], { says: "no state label", follows: null }],
    [
      "beside the run's",
      ["state:implementing", "state:docs"],
      { says: "state:implementing and state:docs", follows: null },
    ],
  ])("%s", (_name, now, moved) => {
    expect(movedLabel({ ...at, now })).toEqual(moved);
  });

  test.each([
    ["is as the run left it, whatever the others are", ["domain:api", "State:Implementing"]],
    ["says what comes now", ["state:e2e"]],
    ["says it in the older word", ["state:validation"]],
  ])("not one that %s", (_name, now) => {
    expect(movedLabel({ ...at, now })).toBe(null);
  });

  test("not before the run has set one, nor one that the forge may still show, nor one that was agreed on", () => {
    expect(movedLabel({ ...at, own: [], now: ["state:docs"] })).toBe(null);
    expect(movedLabel({ ...at, own: [...own, ["state:ready"]], now: ["state:ready"] })).toBe(null);
    expect(movedLabel({ ...at, agreed: ["state:backlog"], now: ["state:backlog", "x"] })).toBe(null);
  });
});
