import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { domainsOfLabels, phaseOfLabels, replaceStateLabel, sameLabels, stateLabel, typeOfLabels } from "./labels.ts";
import { PHASES } from "./phase.ts";

const somePhase = fc.constantFrom(...PHASES);
const someLabel = fc.oneof(
  somePhase.map((phase) => `state:${phase}`),
  fc.constantFrom("state:validation", "State:Enrich", "state:blocked", "state:", "type:bug", "domain:go", "complex"),
  fc.string({ maxLength: 12 }),
);
const someLabels = fc.array(someLabel, { maxLength: 8 });

describe("which phase the labels say", () => {
  test.each([
    [[], { kind: "phase", phase: "input", label: null }],
    [["type:bug", "state:docs"], { kind: "phase", phase: "docs", label: "state:docs" }],
    [["state:validation"], { kind: "phase", phase: "e2e", label: "state:validation" }],
    [["STATE:Ready-To-Merge"], { kind: "phase", phase: "ready-to-merge", label: "STATE:Ready-To-Merge" }],
    [["state:validation", "state:e2e"], { kind: "phase", phase: "e2e", label: "state:validation" }],
    [["state:blocked", "state:input"], { kind: "phase", phase: "input", label: null }],
  ])("%j", (labels, phase) => {
    expect(phaseOfLabels(labels)).toEqual(phase);
  });

  test("several that contradict each other are for a person", () => {
    expect(phaseOfLabels(["state:docs", "x", "state:enrich"])).toEqual({
      kind: "several",
      phases: ["enrich", "docs"],
      labels: ["state:docs", "state:enrich"],
    });
  });
});

describe("replacing the state label", () => {
  test("in its place; validation goes, somebody else's state:blocked stays", () => {
    expect(replaceStateLabel(["a", "state:validation", "state:blocked", "state:docs"], "docs")).toEqual([
      "a",
      "state:docs",
      "state:blocked",
    ]);
    expect(replaceStateLabel(["a"], "enrich")).toEqual(["a", "state:enrich"]);
    expect(replaceStateLabel(["a", "state:enrich"], "input")).toEqual(["a"]);
  });

  test("exactly one is there afterwards, and no other label is touched", () => {
    fc.assert(
      fc.property(someLabels, somePhase, (labels, phase) => {
        const replaced = replaceStateLabel(labels, phase);
        const isState = (label: string): boolean => phaseOfLabels([label]).kind === "phase" && !isOther(label);
        expect(replaced.filter(isState)).toEqual(phase === "input" ? [] : [stateLabel(phase)]);
        expect(replaced.filter(isOther)).toEqual(labels.filter(isOther));
        expect(phaseOfLabels(replaced)).toMatchObject({ kind: "phase", phase });
        expect(replaceStateLabel(replaced, phase)).toEqual(replaced);
      }),
    );
  });
});

/** By its own means, and not by the code that is tested. */
function isOther(label: string): boolean {
  const states = [...PHASES.filter((phase) => phase !== "input"), "validation"].map((phase) => `state:${phase}`);
  return (
    !states.includes(label.trim().toLowerCase()) &&
    !states.includes(
      label
        .toLowerCase()
        .replace(/^state:\s*/, "state:")
        .trimEnd(),
    )
  );
}

test("defect 7: labels are compared as sets, in any order and any case", () => {
  fc.assert(
    fc.property(someLabels, (labels) => {
      expect(sameLabels(labels, [...labels.toReversed(), ...labels])).toBe(true);
      expect(sameLabels(labels, [...labels, "one more than there was"])).toBe(false);
    }),
  );
  expect(sameLabels(["a", "B"], ["b", "A"])).toBe(true);
  expect(sameLabels(["a", "b"], ["a"])).toBe(false);
});

test("defect 8: the labels that an issue has now say where it stands, whatever they said before", () => {
  const moved = replaceStateLabel(["state:enrich", "type:bug"], "ready").with(0, "state:docs");
  expect(phaseOfLabels(moved)).toEqual({ kind: "phase", phase: "docs", label: "state:docs" });
});

test("defect 9: what somebody added or took away meanwhile stays so; only the state is ours", () => {
  const now = ["state:enrich", "added by a person"];
  expect(replaceStateLabel(now, "ready")).toEqual(["state:ready", "added by a person"]);
});

test("type and domains", () => {
  expect(typeOfLabels(["x", "Type:Bug", "type:feature"])).toBe("bug");
  expect(typeOfLabels(["type:other"])).toBeNull();
  expect(domainsOfLabels(["domain:go", "domain:security", "domain:go", "domain:nonsense"])).toEqual(["security", "go"]);
});
