import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SAMPLE_AT, sampleConflict, samplePosition as position } from "./crunch-sample.ts";
import type { Conflict, ConflictPosition } from "./conflict.ts";
import { decideByPerson, nextConflictStep, positionsAfter } from "./debate.ts";
import { defaultCrunchSettings as rules } from "./default-settings.ts";

const SIDES = { "dev-go": "Redis", reviewer: "a cookie" };

function debated(...rounds: readonly (readonly ConflictPosition[])[]): Conflict {
  return sampleConflict(SIDES, rounds);
}

const STUBBORN = [position("dev-go", "Redis"), position("reviewer", "a cookie")];
const SWAPPED = [position("dev-go", "a cookie"), position("reviewer", "Redis")];

test("it begins with everybody's position", () => {
  expect(nextConflictStep(debated(), rules)).toEqual({
    kind: "ask_positions",
    agents: ["dev-go", "reviewer"],
    round: 1,
  });
});

describe("it ends", () => {
  test("when all choose the same", () => {
    const step = nextConflictStep(debated([position("dev-go", "a cookie"), position("reviewer", "A Cookie")]), rules);
    expect(step).toMatchObject({ kind: "resolve", ruling: { how: "agreement", choice: "a cookie", dissent: [] } });
  });

  test("when one can live with what the other wants, under its conditions, and its dissent is kept", () => {
    const willing = position("reviewer", "a cookie", {
      compromise: { acceptable: true, conditions: ["with a password"], hybrid: null },
    });
    expect(nextConflictStep(debated([position("dev-go", "Redis"), willing]), rules)).toMatchObject({
      kind: "resolve",
      ruling: {
        how: "compromise",
        choice: "Redis",
        winner: "dev-go",
        conditions: ["with a password"],
        dissent: [{ agent: "reviewer", choice: "a cookie" }],
      },
    });
  });

  test("when both can live with a third thing", () => {
    const compromise = { acceptable: true, conditions: [], hybrid: "Redis behind a cookie" };
    const step = nextConflictStep(debated(STUBBORN.map((one) => ({ ...one, compromise }))), rules);
    expect(step).toMatchObject({
      kind: "resolve",
      ruling: { how: "compromise", choice: "Redis behind a cookie", winner: null },
    });
  });

  test("not when one would accept only another thing than the other wants", () => {
    const compromise = { acceptable: true, conditions: [], hybrid: "a file" };
    const step = nextConflictStep(
      debated([position("dev-go", "Redis"), { ...position("reviewer", "a cookie"), compromise }]),
      rules,
    );
    expect(step).toMatchObject({ kind: "ask_positions", round: 2 });
  });

  test("by a vote, when nobody moved in a second round and the vote is clear", () => {
    const sure = [
      position("dev-go", "Redis", { confidence: 95 }),
      position("reviewer", "a cookie", { confidence: 30 }),
    ];
    expect(nextConflictStep(debated(sure), rules)).toMatchObject({ kind: "ask_positions", round: 2 });
    expect(nextConflictStep(debated(sure, sure), rules)).toMatchObject({
      kind: "resolve",
      ruling: { how: "vote", choice: "Redis", winner: "dev-go", scores: [{ score: 0.76 }, { score: 0.21 }] },
    });
  });
});

describe("a person is asked", () => {
  test("when the vote is within a tenth", () => {
    const close = [
      position("dev-go", "Redis", { confidence: 70 }),
      position("reviewer", "a cookie", { confidence: 80 }),
    ];
    expect(nextConflictStep(debated(close, close), rules)).toMatchObject({
      kind: "escalate",
      reason: "close_vote",
      options: ["Redis", "a cookie"],
    });
  });

  test("when three rounds have brought no rest, and never later", () => {
    expect(nextConflictStep(debated(STUBBORN, SWAPPED), rules)).toMatchObject({ kind: "ask_positions", round: 3 });
    expect(nextConflictStep(debated(STUBBORN, SWAPPED, STUBBORN), rules)).toMatchObject({
      kind: "escalate",
      reason: "no_convergence",
    });
    const endless = { ...rules, weights: { ...rules.weights, maxRounds: 99 } };
    expect(nextConflictStep(debated(STUBBORN, SWAPPED, STUBBORN), endless).kind).toBe("escalate");
    const short = { ...rules, weights: { ...rules.weights, maxRounds: 1 } };
    expect(nextConflictStep(debated(STUBBORN), short)).toMatchObject({ reason: "no_convergence" });
  });

  test.each(["no_precedent", "business_impact", "explicit_request"] as const)("when an agent says %s", (escalate) => {
    const step = nextConflictStep(
      debated([position("dev-go", "Redis", { escalate }), position("reviewer", "x")]),
      rules,
    );
    expect(step).toMatchObject({ kind: "escalate", reason: escalate, options: ["Redis", "a cookie", "x"] });
  });

  test("once: while it waits, the same question stands", () => {
    const escalation = { reason: "close_vote", question: "Which?", options: ["a", "b"], at: SAMPLE_AT } as const;
    const waiting = sampleConflict(SIDES, [STUBBORN], { escalation });
    expect(nextConflictStep(waiting, rules)).toEqual({
      kind: "escalate",
      reason: "close_vote",
      question: "Which?",
      options: ["a", "b"],
    });
  });
});

describe("a veto", () => {
  const unsafe = { severity: "CRITICAL", target: "a cookie", reason: "it leaks" } as const;
  const sides = { "security-analyst": "Redis", reviewer: "a cookie", "devops-engineer": "a cookie" };

  test("that is CRITICAL applies at once, against any vote, and names its reason", () => {
    const round = [
      position("security-analyst", "Redis", { confidence: 1, veto: unsafe }),
      position("reviewer", "a cookie", { confidence: 100 }),
      position("devops-engineer", "a cookie", { confidence: 100, escalate: "explicit_request" }),
    ];
    expect(nextConflictStep(sampleConflict(sides, [round]), rules)).toMatchObject({
      kind: "resolve",
      ruling: {
        how: "veto",
        choice: "Redis",
        winner: "security-analyst",
        vetoApplied: true,
        reasoning: expect.stringContaining("it leaks"),
        dissent: [{ agent: "devops-engineer" }, { agent: "reviewer" }],
      },
    });
  });

  test("that is HIGH asks a person, also when devops claims more", () => {
    const round = [
      position("security-analyst", "Redis"),
      position("devops-engineer", "a cookie", { veto: { ...unsafe, target: "Redis" } }),
    ];
    expect(nextConflictStep(sampleConflict(sides, [round]), rules)).toMatchObject({
      kind: "escalate",
      reason: "high_veto",
    });
  });

  test("of somebody without one is nothing", () => {
    const round = [
      position("security-analyst", "Redis"),
      position("reviewer", "a cookie", { veto: { ...unsafe, target: "Redis" } }),
    ];
    expect(nextConflictStep(sampleConflict(sides, [round]), rules).kind).toBe("ask_positions");
  });
});

test("who is silent stands where it stood; who never spoke stands for what it recommended", () => {
  const conflict = debated([position("dev-go", "a file")], []);
  expect(positionsAfter(conflict, 2).map(({ agent, choice }) => [agent, choice])).toEqual([
    ["dev-go", "a file"],
    ["reviewer", "a cookie"],
  ]);
});

describe("what a person decides", () => {
  test("may be what nobody proposed; it says whether the agents wanted otherwise", () => {
    const conflict = debated(STUBBORN);
    expect(decideByPerson(conflict, { choice: "Redis", by: "user", rules })).toMatchObject({
      how: "person",
      userOverride: false,
      winner: "dev-go",
      dissent: [{ agent: "reviewer" }],
    });
    expect(decideByPerson(conflict, { choice: "neither", by: "user", rules })).toMatchObject({
      userOverride: true,
      winner: null,
      dissent: [{ agent: "dev-go" }, { agent: "reviewer" }],
    });
  });

  test("against a HIGH veto is an override, with it is none", () => {
    const veto = { severity: "HIGH", target: "a cookie", reason: "r" } as const;
    const conflict = sampleConflict({ "devops-engineer": "Redis", reviewer: "a cookie" }, [
      [position("devops-engineer", "Redis", { confidence: 1, veto }), position("reviewer", "a cookie")],
    ]);
    expect(decideByPerson(conflict, { choice: "Redis", by: "user", rules }).userOverride).toBe(false);
    expect(decideByPerson(conflict, { choice: "a cookie", by: "user", rules }).userOverride).toBe(true);
  });
});

const AGENTS = ["security-analyst", "devops-engineer", "dev-go", "reviewer"] as const;
const someRound = fc.tuple(
  ...AGENTS.map((agent) =>
    fc.option(
      fc
        .record({
          choice: fc.constantFrom("a", "b", "c"),
          confidence: fc.nat(100),
          relevance: fc.constantFrom(0, 0.5, 1),
          acceptable: fc.boolean(),
          hybrid: fc.option(fc.constantFrom("a", "h")),
          veto: fc.option(fc.constantFrom("CRITICAL" as const, "HIGH" as const), { freq: 8 }),
          escalate: fc.option(fc.constantFrom("no_precedent" as const), { freq: 8 }),
        })
        .map(({ choice, acceptable, hybrid, veto, ...rest }) =>
          position(agent, choice, {
            ...rest,
            compromise: { acceptable, conditions: [], hybrid },
            veto: veto === null ? null : { severity: veto, target: "b", reason: "r" },
          }),
        ),
      { freq: 6 },
    ),
  ),
);

test("whatever is said: it ends within three rounds, alike in any order, and a CRITICAL veto is never outvoted", () => {
  const sides = Object.fromEntries(AGENTS.map((agent, index) => [agent, index % 2 === 0 ? "a" : "b"]));
  fc.assert(
    fc.property(fc.array(someRound, { minLength: 3, maxLength: 3 }), (drawn) => {
      const rounds = drawn.map((round) => round.flatMap((one) => one ?? []));
      let conflict = sampleConflict(sides);
      let asked = 0;
      for (;;) {
        const step = nextConflictStep(conflict, rules);
        const mixed = { ...conflict, rounds: conflict.rounds.map((round) => round.toReversed()) };
        expect(nextConflictStep(mixed, rules)).toEqual(step);
        if (step.kind !== "ask_positions") {
          const last = positionsAfter(conflict, conflict.rounds.length);
          const critical = last.find((one) => one.agent === "security-analyst" && one.veto?.severity === "CRITICAL");
          if (critical !== undefined && critical.choice !== "b") {
            expect(step).toMatchObject({ kind: "resolve", ruling: { how: "veto", choice: critical.choice } });
          }
          break;
        }
        asked += 1;
        expect(step.round).toBe(asked);
        conflict = { ...conflict, rounds: [...conflict.rounds, rounds[asked - 1] ?? []] };
      }
      expect(asked).toBeLessThanOrEqual(3);
    }),
  );
});
