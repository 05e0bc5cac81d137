import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  SAMPLE_AT,
  sampleConflict,
  samplePosition as position,
  sampleRecommendation as recommend,
} from "@holdfast/test-support/workflows/crunch-sample";
import {
  decideByUser,
  decisiveVeto,
  detectConflicts,
  isClose,
  judgeVeto,
  nextConflictStep,
  positionsAfter,
  tallyVotes,
  weightOf,
} from "./conflicts.ts";
import { defaultCrunchSettings as rules, defaultCrunchSettings } from "./default-settings.ts";
import type { Conflict, ConflictPosition, Recommendation, VetoSeverity } from "./messages.ts";

describe("debate", () => {
  const SIDES = { "dev-go": "Redis", reviewer: "a cookie" };

  function debated(...rounds: readonly (readonly ConflictPosition[])[]): Conflict {
    return sampleConflict(SIDES, rounds);
  }

  const STUBBORN = [position("dev-go", "Redis"), position("reviewer", "a cookie")];
  const SWAPPED = [position("dev-go", "a cookie"), position("reviewer", "Redis")];

  test("it starts with the position of every participant", () => {
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

    test("when one accepts the other's choice, under its conditions, and its dissent is recorded", () => {
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

    test("when both accept a third choice", () => {
      const compromise = { acceptable: true, conditions: [], hybrid: "Redis behind a cookie" };
      const step = nextConflictStep(debated(STUBBORN.map((one) => ({ ...one, compromise }))), rules);
      expect(step).toMatchObject({
        kind: "resolve",
        ruling: { how: "compromise", choice: "Redis behind a cookie", winner: null },
      });
    });

    test("not when one accepts only a choice that the other does not want", () => {
      const compromise = { acceptable: true, conditions: [], hybrid: "a file" };
      const step = nextConflictStep(
        debated([position("dev-go", "Redis"), { ...position("reviewer", "a cookie"), compromise }]),
        rules,
      );
      expect(step).toMatchObject({ kind: "ask_positions", round: 2 });
    });

    test("by a vote, when no position changed in a second round and the vote is clear", () => {
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

    test("after three rounds without agreement, and never later", () => {
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

    test.each(["no_precedent", "business_impact", "explicit_request"] as const)(
      "when an agent reports %s",
      (escalate) => {
        const step = nextConflictStep(
          debated([position("dev-go", "Redis", { escalate }), position("reviewer", "x")]),
          rules,
        );
        expect(step).toMatchObject({ kind: "escalate", reason: escalate, options: ["Redis", "a cookie", "x"] });
      },
    );

    test("once: while it waits, the same question stays", () => {
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

    test("that is CRITICAL decides immediately, against any vote, and names its reason", () => {
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
        position("devops-engineer", "a cookie", { veto: { ...unsafe, target: "Redis", reason: "it leaks. " } }),
      ];
      expect(nextConflictStep(sampleConflict(sides, [round]), rules)).toMatchObject({
        kind: "escalate",
        reason: "high_veto",
        question: expect.stringMatching(/ vetoed: it leaks\. Which shall it be\?$/),
      });
    });

    test("of an agent without veto right is ignored", () => {
      const round = [
        position("security-analyst", "Redis"),
        position("reviewer", "a cookie", { veto: { ...unsafe, target: "Redis" } }),
      ];
      expect(nextConflictStep(sampleConflict(sides, [round]), rules).kind).toBe("ask_positions");
    });
  });

  test("a silent agent keeps its position; one that never answered has the position of its recommendation", () => {
    const conflict = debated([position("dev-go", "a file")], []);
    expect(positionsAfter(conflict, 2).map(({ agent, choice }) => [agent, choice])).toEqual([
      ["dev-go", "a file"],
      ["reviewer", "a cookie"],
    ]);
  });

  describe("a person's decision", () => {
    test("may be a choice that no agent proposed; it records whether the agents wanted another", () => {
      const conflict = debated(STUBBORN);
      expect(decideByUser(conflict, { choice: "Redis", by: "user", rules })).toMatchObject({
        how: "person",
        userOverride: false,
        winner: "dev-go",
        dissent: [{ agent: "reviewer" }],
      });
      expect(decideByUser(conflict, { choice: "neither", by: "user", rules })).toMatchObject({
        userOverride: true,
        winner: null,
        dissent: [{ agent: "dev-go" }, { agent: "reviewer" }],
      });
    });

    test("against a HIGH veto is an override, with it is not", () => {
      const veto = { severity: "HIGH", target: "a cookie", reason: "r" } as const;
      const conflict = sampleConflict({ "devops-engineer": "Redis", reviewer: "a cookie" }, [
        [position("devops-engineer", "Redis", { confidence: 1, veto }), position("reviewer", "a cookie")],
      ]);
      expect(decideByUser(conflict, { choice: "Redis", by: "user", rules }).userOverride).toBe(false);
      expect(decideByUser(conflict, { choice: "a cookie", by: "user", rules }).userOverride).toBe(true);
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

  test("for any answers: it ends within three rounds, the same in any order, and a CRITICAL veto is never outvoted", () => {
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
});

describe("veto", () => {
  const rules = defaultCrunchSettings.veto;

  function vetoing(agent: string, severity: VetoSeverity, choice = "no", target = "yes"): ConflictPosition {
    return position(agent, choice, { veto: { severity, target, reason: "unsafe" } });
  }

  describe("the weight of a claim", () => {
    test.each([
      [vetoing("security-analyst", "CRITICAL"), { kind: "held", severity: "CRITICAL" }],
      [vetoing("security-analyst", "HIGH"), { kind: "held", severity: "HIGH" }],
      [vetoing("devops-engineer", "HIGH"), { kind: "held", severity: "HIGH" }],
      [vetoing("devops-engineer", "CRITICAL"), { kind: "held", severity: "HIGH" }],
      [vetoing("reviewer", "CRITICAL"), { kind: "refused", why: "reviewer has no veto" }],
      [vetoing("toString", "CRITICAL"), { kind: "refused", why: "toString has no veto" }],
      [vetoing("security-analyst", "CRITICAL", "Yes"), { kind: "refused" }],
      [position("security-analyst", "no"), { kind: "none" }],
    ])("%#", (claim, judged) => {
      expect(judgeVeto(claim, rules)).toMatchObject(judged);
    });
  });

  describe("the effective veto", () => {
    test("CRITICAL decides, before any HIGH", () => {
      const critical = vetoing("security-analyst", "CRITICAL");
      expect(decisiveVeto([vetoing("devops-engineer", "HIGH", "maybe"), critical], rules)).toEqual({
        kind: "apply",
        position: critical,
      });
    });

    test("HIGH asks", () => {
      expect(decisiveVeto([vetoing("devops-engineer", "CRITICAL")], rules)).toMatchObject({ kind: "ask" });
      expect(decisiveVeto([vetoing("reviewer", "CRITICAL")], rules)).toEqual({ kind: "none" });
    });

    test("CRITICAL vetoes for different choices ask a person", () => {
      const both = { a: "CRITICAL", b: "CRITICAL" } as const;
      const opposed = [vetoing("a", "CRITICAL", "x", "y"), vetoing("b", "CRITICAL", "y", "x")];
      expect(decisiveVeto(opposed, both)).toMatchObject({ kind: "opposed" });
      expect(decisiveVeto([vetoing("b", "CRITICAL", "x"), vetoing("a", "CRITICAL", "X ")], both)).toMatchObject({
        kind: "apply",
        position: { agent: "a" },
      });
    });

    test("is the same in any order", () => {
      const claim = fc.record({
        agent: fc.constantFrom("security-analyst", "devops-engineer", "reviewer"),
        severity: fc.constantFrom<VetoSeverity>("CRITICAL", "HIGH"),
        choice: fc.constantFrom("no", "never", "yes"),
      });
      fc.assert(
        fc.property(fc.uniqueArray(claim, { selector: (one) => one.agent }), (claims) => {
          const positions = claims.map((one) => vetoing(one.agent, one.severity, one.choice));
          expect(decisiveVeto(positions.toReversed(), rules)).toEqual(decisiveVeto(positions, rules));
        }),
      );
    });
  });
});

describe("vote", () => {
  const { weights } = defaultCrunchSettings;

  function tally(positions: Parameters<typeof tallyVotes>[0]["positions"], domains: readonly string[] = []) {
    return tallyVotes({ positions, domains, weights });
  }

  test("the reference's own example: 1.425 against 0.384", () => {
    const { scores, totals } = tally(
      [
        position("security-analyst", "no", { confidence: 95, relevance: 1 }),
        position("dev-python", "yes", { confidence: 80, relevance: 0.6 }),
      ],
      ["security"],
    );
    expect(scores.map((one) => one.score)).toEqual([0.384, 1.425]);
    expect(totals).toEqual([
      { choice: "no", total: 1.425 },
      { choice: "yes", total: 0.384 },
    ]);
  });

  test.each([
    ["security-analyst", 1, 0.5],
    ["system-architect", 0.9, 0.3],
    ["devops-engineer", 0.8, 0.3],
    ["dev-go", 0.8, 0.3],
    ["dev-cpp", 0.8, 0.3],
    ["dev-python", 0.8, 0.3],
    ["dev-react", 0.8, 0.3],
    ["dev-of-the-user", 0.8, 0.3],
    ["reviewer", 0.7, 0.2],
    ["qa-engineer", 0.7, 0.2],
    ["techwriter", 0.6, 0],
    ["knowledge-manager", 0.5, 0],
    ["another-agent", 0.5, 0],
    ["constructor", 0.5, 0],
  ])("%s has the weight %f (+%f)", (agent, base, boost) => {
    expect(weightOf(agent, weights)).toMatchObject({ base, boost });
  });

  test("choices in another spelling are one choice", () => {
    expect(tally([position("reviewer", "Use  Redis"), position("dev-go", "use redis ")]).totals).toHaveLength(1);
  });

  describe("too close to call", () => {
    test.each([
      [100, 90, true],
      [100, 89, false],
      [100, 100, true],
      [100, 0, false],
    ])("%i against %i: %s", (one, other, close) => {
      const positions = [position("dev-go", "a", { confidence: one }), position("dev-cpp", "b", { confidence: other })];
      expect(isClose(tally(positions), 0.1)).toBe(close);
    });

    test("without confidence the vote is a tie, also with one voter", () => {
      expect(isClose(tally([]), 0.1)).toBe(true);
      expect(isClose(tally([position("dev-go", "a", { confidence: 0 })]), 0.1)).toBe(true);
      expect(isClose(tally([position("dev-go", "a")]), 0.1)).toBe(false);
    });
  });

  const somePositions = fc.uniqueArray(
    fc.record({
      agent: fc.constantFrom("security-analyst", "dev-go", "dev-cpp", "reviewer", "qa-engineer", "techwriter", "x"),
      choice: fc.constantFrom("a", "b", "c", "A "),
      confidence: fc.double({ min: 0, max: 100, noNaN: true }),
      relevance: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    { selector: (one) => one.agent },
  );

  test("the order of the positions makes no difference", () => {
    fc.assert(
      fc.property(somePositions, fc.infiniteStream(fc.nat()), (some, stream) => {
        const positions = some.map(({ agent, choice, ...rest }) => position(agent, choice, rest));
        const shuffled = positions
          .map((one) => ({ one, at: stream.next().value ?? 0 }))
          .toSorted((a, b) => a.at - b.at)
          .map(({ one }) => one);
        expect(tally(shuffled, ["go"])).toEqual(tally(positions, ["go"]));
      }),
    );
  });

  test("more confidence never lowers a choice", () => {
    fc.assert(
      fc.property(somePositions, fc.nat(), (some, pick) => {
        const positions = some.map(({ agent, choice, ...rest }) => position(agent, choice, rest));
        const at = pick % Math.max(1, positions.length);
        const surer = positions.map((one, index) => (index === at ? { ...one, confidence: 100 } : one));
        const totalOf = (all: typeof positions): number =>
          tally(all).totals.find(
            (one) => one.choice.trim().toLowerCase() === positions[at]?.choice.trim().toLowerCase(),
          )?.total ?? 0;
        expect(totalOf(surer)).toBeGreaterThanOrEqual(totalOf(positions));
      }),
    );
  });
});

describe("detect conflicts", () => {
  function detect(
    recommendations: readonly Recommendation[],
    known: readonly Conflict[] = [],
    at = SAMPLE_AT,
  ): readonly Conflict[] {
    return detectConflicts({ recommendations, known, phase: "enrich", domains: ["python"], at });
  }

  describe("a conflict is", () => {
    test("the same scope, different choices, both actionable", () => {
      expect(detect([recommend("a", "Redis"), recommend("b", "a cookie")])).toMatchObject([
        {
          id: expect.stringMatching(/^CONF-20260114T103000-[0-9a-f]{8}$/),
          participants: ["a", "b"],
          choices: ["Redis", "a cookie"],
          topic: "where tokens are kept",
          rounds: [],
          resolution: null,
        },
      ]);
    });

    test.each<readonly [string, readonly Recommendation[]]>([
      ["one choice in two spellings", [recommend("a", "Redis"), recommend("b", " redis")]],
      ["two scopes", [recommend("a", "Redis"), recommend("b", "a cookie", { scope: "something else" })]],
      ["a remark without an action", [recommend("a", "Redis"), recommend("b", "x", { actionable: false })]],
      ["one agent that changed its mind", [recommend("a", "Redis"), recommend("a", "a cookie")]],
      ["no scope at all", [recommend("a", "Redis", { scope: " " }), recommend("b", "x", { scope: "" })]],
      ["alone", [recommend("a", "Redis")]],
    ])("not %s", (_, recommendations) => {
      expect(detect(recommendations)).toEqual([]);
    });

    test("one conflict contains all differing agents, in any spelling of the scope", () => {
      const three = [
        recommend("c", "x"),
        recommend("a", "y", { scope: "Where  tokens are KEPT" }),
        recommend("b", "x"),
      ];
      expect(detect(three)).toMatchObject([{ participants: ["a", "b", "c"], choices: ["y", "x"] }]);
    });
  });

  test("a known conflict is not reported again; a new choice is a new conflict", () => {
    const sides = [recommend("a", "Redis"), recommend("b", "a cookie")];
    const known = detect(sides);
    expect(detect(sides, known, "2027-01-01T00:00:00.000Z")).toEqual([]);
    expect(detect([recommend("a", "Redis"), recommend("b", "a file")], known)).toHaveLength(1);
  });

  test("its domains are those that its text names, else the issue's", () => {
    const named = [recommend("a", "store the JWT in a cookie"), recommend("b", "in Redis")];
    expect(detect(named)).toMatchObject([{ domains: ["security"] }]);
    expect(detect([recommend("a", "x"), recommend("b", "y")])).toMatchObject([{ domains: ["python"] }]);
  });

  test("is the same in any order of the answers", () => {
    const one = fc.record({
      agent: fc.constantFrom("a", "b", "c", "d"),
      choice: fc.constantFrom("x", "y", "X"),
      scope: fc.constantFrom("s", "t"),
      actionable: fc.boolean(),
    });
    const some = fc.uniqueArray(one, { selector: ({ agent, scope }) => `${agent} ${scope}` });
    fc.assert(
      fc.property(some, (drawn) => {
        const recommendations = drawn.map(({ agent, choice, ...rest }) => recommend(agent, choice, rest));
        const byTopic = (found: readonly Conflict[]): readonly Conflict[] =>
          found.toSorted((a, b) => (a.topic < b.topic ? -1 : 1));
        expect(byTopic(detect(recommendations.toReversed()))).toEqual(byTopic(detect(recommendations)));
      }),
    );
  });
});
