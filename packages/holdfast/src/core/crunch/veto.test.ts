import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleConflict, samplePosition as position, SAMPLE_AT } from "./crunch-sample.ts";
import type { ConflictPosition, Resolution, VetoSeverity } from "./conflict.ts";
import { defaultCrunchSettings } from "./default-settings.ts";
import { judgeVeto, standingVeto, vetoLog, vetoStatistics } from "./veto.ts";

const rules = defaultCrunchSettings.veto;

function vetoing(agent: string, severity: VetoSeverity, choice = "no", target = "yes"): ConflictPosition {
  return position(agent, choice, { veto: { severity, target, reason: "unsafe" } });
}

describe("what a claim is worth", () => {
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

describe("what stands", () => {
  test("CRITICAL applies, before any HIGH", () => {
    const critical = vetoing("security-analyst", "CRITICAL");
    expect(standingVeto([vetoing("devops-engineer", "HIGH", "maybe"), critical], rules)).toEqual({
      kind: "apply",
      position: critical,
    });
  });

  test("HIGH asks", () => {
    expect(standingVeto([vetoing("devops-engineer", "CRITICAL")], rules)).toMatchObject({ kind: "ask" });
    expect(standingVeto([vetoing("reviewer", "CRITICAL")], rules)).toEqual({ kind: "none" });
  });

  test("CRITICAL ones that want different things are for a person", () => {
    const both = { a: "CRITICAL", b: "CRITICAL" } as const;
    const opposed = [vetoing("a", "CRITICAL", "x", "y"), vetoing("b", "CRITICAL", "y", "x")];
    expect(standingVeto(opposed, both)).toMatchObject({ kind: "opposed" });
    expect(standingVeto([vetoing("b", "CRITICAL", "x"), vetoing("a", "CRITICAL", "X ")], both)).toMatchObject({
      kind: "apply",
      position: { agent: "a" },
    });
  });

  test("in whatever order they were said", () => {
    const claim = fc.record({
      agent: fc.constantFrom("security-analyst", "devops-engineer", "reviewer"),
      severity: fc.constantFrom<VetoSeverity>("CRITICAL", "HIGH"),
      choice: fc.constantFrom("no", "never", "yes"),
    });
    fc.assert(
      fc.property(fc.uniqueArray(claim, { selector: (one) => one.agent }), (claims) => {
        const positions = claims.map((one) => vetoing(one.agent, one.severity, one.choice));
        expect(standingVeto(positions.toReversed(), rules)).toEqual(standingVeto(positions, rules));
      }),
    );
  });
});

describe("the log", () => {
  const sides = { "security-analyst": "no", "dev-go": "yes" };
  const resolution: Resolution = {
    how: "person",
    choice: "no",
    winner: null,
    reasoning: "",
    conditions: [],
    scores: [],
    vetoApplied: false,
    userOverride: false,
    dissent: [],
    at: "2026-01-15T00:00:00.000Z",
    knowledge: null,
  };

  test.each([
    ["HIGH", null, "waiting", null],
    ["HIGH", { ...resolution }, "upheld", null],
    ["HIGH", { ...resolution, choice: "yes" }, "overridden", "user"],
    ["CRITICAL", { ...resolution, how: "veto" }, "applied", null],
  ] as const)("%s with %j", (severity, resolved, outcome, overrideBy) => {
    const conflict = sampleConflict(sides, [[vetoing("security-analyst", severity)]], { resolution: resolved });
    expect(vetoLog([conflict], rules)).toMatchObject([
      {
        id: expect.stringMatching(/^VETO-20260114-[0-9a-f]{4}$/),
        agent: "security-analyst",
        severity,
        outcome,
        overrideBy,
      },
    ]);
  });

  test("a claim without the right to it is there too", () => {
    const conflict = sampleConflict(sides, [[vetoing("dev-go", "CRITICAL", "yes", "no")]]);
    const log = vetoLog([conflict], rules);
    expect(log).toMatchObject([{ outcome: "refused", at: SAMPLE_AT }]);
    expect(vetoStatistics(log)).toEqual({ applied: 0, waiting: 0, upheld: 0, overridden: 0, refused: 1 });
  });
});
