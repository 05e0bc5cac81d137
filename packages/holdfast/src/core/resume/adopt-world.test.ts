import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { adoptWorld } from "./adopt-world.ts";
import { readAccepted } from "./accepted.ts";
import { emptyPlanes } from "../checkpoint/checkpoint.ts";
import type { IssueSnapshot, Planes } from "../checkpoint/checkpoint.ts";
import { compareInputs, compareSettings, defaultFindingPolicy } from "./finding.ts";
import { reliedOn } from "./relied-on.ts";
import { planResume } from "./resume-plan.ts";

const text = fc.string({ unit: fc.constantFrom("a", "b", "\n", "\r\n"), maxLength: 12 });
const issues: fc.Arbitrary<IssueSnapshot> = fc.record({
  number: fc.constant(42),
  title: text,
  body: text,
  labels: fc.uniqueArray(fc.constantFrom("x", "y", "z")),
  state: fc.constantFrom("open", "closed"),
  updatedAt: fc.constant("t"),
});
const configs = fc.record({
  agent: fc.constant("scripted"),
  model: fc.constantFrom("m", "n"),
  temperature: fc.constant(null),
  seed: fc.constant(null),
  mode: fc.constant("default" as const),
  tools: fc.uniqueArray(fc.constantFrom("read", "shell")),
  inputs: fc.constant({}),
});

function standing(issue: IssueSnapshot, where: "inputs" | "values", config: Planes["config"]): Planes {
  const planes = emptyPlanes();
  const position = { ...planes.position, definition: "d1" };
  const rest = { ...planes, position, config };
  return where === "inputs"
    ? { ...rest, inputs: { ...planes.inputs, issue } }
    : { ...rest, context: { ...planes.context, values: { issue: { ...issue } } } };
}

describe("the world as it is now, once taken over", () => {
  test("is no finding any more, wherever the run keeps its issue", () => {
    const where = fc.constantFrom("inputs" as const, "values" as const);
    fc.assert(
      fc.property(issues, issues, where, configs, configs, (before, now, place, was, is) => {
        const planes = standing(before, place, was);
        const current = { definition: "d2", config: is };
        const look = (at: Planes) => [
          ...compareInputs({
            saved: { ...at.inputs, issue: reliedOn(at).issue },
            current: { ...at.inputs, issue: now },
          }),
          ...compareSettings({ saved: { definition: at.position.definition, config: at.config }, current }),
        ];
        const answers = { issue_body_changed: "accept", issue_closed: "accept", workflow_changed: "accept" } as const;
        const plan = planResume({
          run: "r",
          state: { kind: "open" },
          from: { kind: "newest" },
          findings: look(planes),
          policy: defaultFindingPolicy,
          answers,
          accepted: readAccepted(planes.extensions),
          force: false,
        });
        if (plan.kind !== "warn") throw new Error(`a changed definition warns at least, and this is ${plan.kind}`);
        expect(look(adoptWorld({ planes, actions: plan.actions, current }))).toEqual([]);
      }),
    );
  });

  test("an accepted tip of the remote is what the next push may replace, where the workflow says what it pushed", () => {
    const commit = "b".repeat(40);
    const action = { kind: "remember", finding: "branch_diverged", actual: { commit }, why: "." } as const;
    const current = { definition: null, config: emptyPlanes().config };
    const plain = emptyPlanes();
    const pushes = { ...plain, context: { ...plain.context, values: { pushed: null } } };
    expect(adoptWorld({ planes: pushes, actions: [action], current }).context.values).toEqual({ pushed: commit });
    expect(adoptWorld({ planes: plain, actions: [action], current }).context.values).toEqual({});
  });
});
