import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type InputsPlane, type IssueSnapshot, emptyPlanes } from "@holdfast/core/checkpoint";
import { type Finding, type RecordedRun, compareInputs, defaultFindingPolicy } from "@holdfast/core/findings";
import { type ResumePlan, planResume } from "@holdfast/core/resume-plan";
import {
  PHASES,
  branchName,
  crunchFreshness,
  domainsOfLabels,
  isAtOrPast,
  movedLabel,
  parsePhase,
  phaseOfLabels,
  replaceStateLabel,
  sameLabels,
  stateLabel,
  typeOfLabels,
} from "./phases.ts";

describe("phase", () => {
  test("validation is read as e2e, and nothing writes it", () => {
    expect(parsePhase("validation")).toBe("e2e");
    expect(parsePhase(" Validation ")).toBe("e2e");
    expect(PHASES).not.toContain("validation");
    expect(parsePhase("review")).toBeNull();
    expect(parsePhase("__proto__")).toBeNull();
  });

  test("a run stops at its target, or if it is beyond it", () => {
    expect(isAtOrPast("ready", "ready")).toBe(true);
    expect(isAtOrPast("docs", "ready")).toBe(true);
    expect(isAtOrPast("enrich", "ready")).toBe(false);
  });
});

describe("labels", () => {
  const somePhase = fc.constantFrom(...PHASES);
  const someLabel = fc.oneof(
    somePhase.map((phase) => `state:${phase}`),
    fc.constantFrom("state:validation", "State:Enrich", "state:blocked", "state:", "type:bug", "domain:go", "complex"),
    fc.string({ maxLength: 12 }),
  );
  const someLabels = fc.array(someLabel, { maxLength: 8 });

  describe("the phase of labels", () => {
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

    test("contradicting labels ask a person", () => {
      expect(phaseOfLabels(["state:docs", "x", "state:enrich"])).toEqual({
        kind: "several",
        phases: ["enrich", "docs"],
        labels: ["state:docs", "state:enrich"],
      });
    });
  });

  describe("replacing the state label", () => {
    test("in its place; validation is removed, state:blocked of a user stays", () => {
      expect(replaceStateLabel(["a", "state:validation", "state:blocked", "state:docs"], "docs")).toEqual([
        "a",
        "state:docs",
        "state:blocked",
      ]);
      expect(replaceStateLabel(["a"], "enrich")).toEqual(["a", "state:enrich"]);
      expect(replaceStateLabel(["a", "state:enrich"], "input")).toEqual(["a"]);
    });

    test("exactly one remains, and no other label is touched", () => {
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

  /** An implementation independent of the tested code. */
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

  test("defect 8: the current labels of an issue decide its phase, whatever the earlier ones were", () => {
    const moved = replaceStateLabel(["state:enrich", "type:bug"], "ready").with(0, "state:docs");
    expect(phaseOfLabels(moved)).toEqual({ kind: "phase", phase: "docs", label: "state:docs" });
  });

  test("defect 9: labels that a user added or removed meanwhile stay so; only the state is ours", () => {
    const now = ["state:enrich", "added by a person"];
    expect(replaceStateLabel(now, "ready")).toEqual(["state:ready", "added by a person"]);
  });

  test("type and domains", () => {
    expect(typeOfLabels(["x", "Type:Bug", "type:feature"])).toBe("bug");
    expect(typeOfLabels(["type:other"])).toBeNull();
    expect(domainsOfLabels(["domain:go", "domain:security", "domain:go", "domain:nonsense"])).toEqual([
      "security",
      "go",
    ]);
  });
});

describe("moved label", () => {
  const own = [["type:bug", "state:implementing"]];
  const at = { own, entering: "e2e", agreed: null } as const;

  describe("a state label that a user moved", () => {
    test.each([
      ["forth", ["state:docs"], { says: "state:docs", follows: "docs" }],
      ["back", ["state:ready", "type:bug"], { says: "state:ready", follows: "ready" }],
      ["to a phase without work", ["state:backlog"], { says: "state:backlog", follows: null }],
      ["away", ["type:bug"], { says: "no state label", follows: null }],
      [
        "next to the run's",
        ["state:implementing", "state:docs"],
        { says: "state:implementing and state:docs", follows: null },
      ],
    ])("%s", (_name, now, moved) => {
      expect(movedLabel({ ...at, now })).toEqual(moved);
    });

    test.each([
      ["is as the run left it, whatever the others are", ["domain:api", "State:Implementing"]],
      ["names the next phase", ["state:e2e"]],
      ["names it in the older spelling", ["state:validation"]],
    ])("not one that %s", (_name, now) => {
      expect(movedLabel({ ...at, now })).toBe(null);
    });

    test("not before the run has set one, nor one that the forge may still show, nor one that was accepted", () => {
      expect(movedLabel({ ...at, own: [], now: ["state:docs"] })).toBe(null);
      expect(movedLabel({ ...at, own: [...own, ["state:ready"]], now: ["state:ready"] })).toBe(null);
      expect(movedLabel({ ...at, agreed: ["state:backlog"], now: ["state:backlog", "x"] })).toBe(null);
    });
  });
});

describe("crunch freshness", () => {
  const issue: IssueSnapshot = {
    number: 42,
    title: "Refresh tokens",
    body: "Do it.",
    labels: ["state:enrich", "type:feature", "domain:security"],
    state: "open",
    updatedAt: "2026-01-01T00:00:00Z",
  };
  const inputs = (change: Partial<IssueSnapshot> = {}): InputsPlane => ({
    issue: { ...issue, ...change },
    task: null,
    base: null,
    plan: null,
  });
  const recorded = (stage: string, entered: readonly string[] = [stage]): RecordedRun => ({
    position: emptyPlanes({ workflow: "crunch", stage }).position,
    values: { base: { branch: "main", commit: "c0" }, phases: entered.map((phase) => ({ phase })) },
  });
  const found = (change: Partial<IssueSnapshot>): readonly Finding[] =>
    compareInputs({ saved: inputs(), current: inputs(change) });

  /** Plans as a resume does. */
  function judged(findings: readonly Finding[], at: RecordedRun): ResumePlan {
    return planResume({
      run: "r",
      state: { kind: "active" },
      from: { kind: "newest" },
      findings: findings.filter((finding) => !crunchFreshness.isOwn(finding, at)),
      policy: defaultFindingPolicy,
      verdictOf: (finding) => crunchFreshness.judge(finding, at),
      answers: {},
      accepted: {},
      force: false,
    });
  }

  const FILES: Finding = { kind: "files_changed", summary: "Files", expected: "a", actual: "b", diff: "-a\n+b" };
  const BRANCH: Finding = {
    kind: "branch_missing",
    summary: "The branch is gone",
    expected: { branch: "refs/heads/feature/issue-42", head: "c1" },
    actual: null,
  };

  describe("the rows of crunch's table of freshness", () => {
    const at = recorded("enrich");

    test("labels changed: resumes with a warning", () => {
      expect(judged(found({ labels: ["state:enrich", "type:bug"] }), at).kind).toBe("warn");
    });

    test("body modified: asks", () => {
      expect(judged(found({ body: "Do something else." }), at).kind).toBe("ask");
    });

    test("branch missing: created again from our refs, while crunch would start over", () => {
      const plan = judged([BRANCH], at);
      expect(plan).toMatchObject({ kind: "warn", actions: [{ kind: "recreate_branch", commit: "c1" }] });
    });

    test("files modified externally: shown, and asked about", () => {
      const plan = judged([FILES], at);
      expect(plan).toMatchObject({ kind: "ask", judgements: [{ finding: { diff: "-a\n+b" } }] });
    });

    test("nothing changed: resumes", () => {
      expect(judged(found({}), at)).toEqual({ kind: "resume", judgements: [], actions: [] });
    });
  });

  test("defect 7: a changed label hides neither the body nor the branch, and the worst decides", () => {
    const labels = ["type:feature", "state:ready", "domain:security"];
    const plan = judged([...found({ labels, body: "Do something else." }), BRANCH, FILES], recorded("enrich"));
    expect(plan.kind).toBe("ask");
    const kinds = plan.judgements.map(({ finding }) => finding.kind);
    expect(kinds).toEqual(["issue_body_changed", "issue_labels_changed", "branch_missing", "files_changed"]);
  });

  test("defect 7: labels are sets: order, duplicates and the run's own state label are not a change", () => {
    expect(judged(found({ labels: issue.labels.toReversed() }), recorded("enrich")).kind).toBe("resume");
    const own = ["type:feature", "domain:security", "state:implementing"];
    expect(judged(found({ labels: own }), recorded("implementing", ["enrich", "implementing"])).kind).toBe("resume");
    // Stopped after the transition and before the new label was set.
    expect(judged(found({ labels: own }), recorded("e2e", ["enrich", "implementing"])).kind).toBe("resume");
    expect(judged(found({ labels: [...own, "urgent"] }), recorded("implementing")).kind).toBe("warn");
  });

  describe("defect 8: the state label moves the run", () => {
    const move = (labels: readonly string[], at: RecordedRun) => crunchFreshness.relocate(labels, at)?.stage ?? null;

    test("forward and back, also by the old name of e2e, and to its end", () => {
      expect(move(["state:docs"], recorded("implementing"))).toBe("docs");
      expect(move(["state:enrich", "x"], recorded("implementing"))).toBe("enrich");
      expect(move(["state:validation"], recorded("implementing"))).toBe("e2e");
      expect(move(["state:done"], recorded("docs"))).toBe("done");
      expect(crunchFreshness.relocate(["state:docs"], recorded("implementing"))?.why).toContain("state:docs");
    });

    test("not by a label that the run itself set, nor with unknown labels", () => {
      expect(move(["state:implementing"], recorded("implementing"))).toBe(null);
      expect(move(["state:implementing"], recorded("e2e", ["implementing"]))).toBe(null);
      expect(move([], recorded("implementing"))).toBe(null);
      expect(move(["state:docs", "state:enrich"], recorded("implementing"))).toBe(null);
      expect(move(["state:backlog"], recorded("implementing"))).toBe(null);
      expect(move(["state:docs"], recorded("fatal"))).toBe(null);
      expect(move(["state:docs"], { ...recorded("enrich"), values: { base: null, phases: [] } })).toBe(null);
    });

    test("several state labels, one without work, or none: asked about", () => {
      for (const labels of [["state:docs", "state:ready"], ["state:backlog"], ["type:feature"]])
        expect(judged(found({ labels }), recorded("enrich")).kind).toBe("ask");
      expect(judged(found({ labels: ["state:docs"] }), recorded("enrich")).kind).toBe("warn");
    });
  });

  test("defect 9: a resume writes nothing to the issue", () => {
    const labels = ["state:docs", "type:feature"];
    const plan = judged(found({ labels, title: "T" }), recorded("enrich"));
    if (plan.kind !== "warn") return expect.unreachable();
    expect(plan.actions.map(({ kind }) => kind)).toEqual(["take_issue"]);
    expect(plan.actions[0]).toMatchObject({ change: { labels: ["state:docs", "type:feature"], title: "T" } });
  });
});

describe("branch name", () => {
  test.each([
    ["JWT refresh", [], "feature/issue-42-jwt-refresh"],
    ["Login fails", ["type:bug"], "fix/issue-42-login-fails"],
    ["Split it", ["type:decomposition"], "feature/issue-42-split-it"],
    ["", [], "feature/issue-42-task"],
    ["   …!? ", [], "feature/issue-42-task"],
    ["日本語", [], "feature/issue-42-task"],
    ["Café à la crème", [], "feature/issue-42-cafe-a-la-creme"],
    ["../../etc/passwd\0", [], "feature/issue-42-etc-passwd"],
    ["a.lock", [], "feature/issue-42-a-lock"],
    [`${"word ".repeat(30)}`, [], `feature/issue-42-${"word-".repeat(8).slice(0, -1)}`],
    ["x".repeat(300), [], `feature/issue-42-${"x".repeat(40)}`],
  ])("%j with %j", (title, labels, branch) => {
    expect(branchName({ number: 42, title, labels })).toBe(branch);
  });

  /** Any code units, including lone surrogates. */
  const someTitle = fc.oneof(
    fc.string(),
    fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units)),
  );

  test("for any title, it is a valid name for git and file systems", () => {
    fc.assert(
      fc.property(someTitle, (title) => {
        expect(branchName({ number: 7, title, labels: [] })).toMatch(/^feature\/issue-7-[a-z0-9]+(?:-[a-z0-9]+)*$/);
        expect(branchName({ number: 7, title, labels: [] }).length).toBeLessThanOrEqual(60);
      }),
    );
  });

  test.each([0, -1, 1.5, Number.NaN])("an issue number %s is refused", (number) => {
    expect(() => branchName({ number, title: "x", labels: [] })).toThrow(/whole number from 1/);
  });
});
