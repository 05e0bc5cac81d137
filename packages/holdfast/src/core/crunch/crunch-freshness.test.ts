import { describe, expect, test } from "vitest";
import { emptyPlanes } from "../checkpoint/checkpoint.ts";
import type { InputsPlane, IssueSnapshot } from "../checkpoint/checkpoint.ts";
import { compareInputs, defaultFindingPolicy } from "../resume/finding.ts";
import type { Finding } from "../resume/finding.ts";
import type { Standing } from "../resume/freshness.ts";
import { planResume } from "../resume/resume-plan.ts";
import type { ResumePlan } from "../resume/resume.ts";
import { crunchFreshness } from "./crunch-freshness.ts";

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
const standing = (stage: string, entered: readonly string[] = [stage]): Standing => ({
  position: emptyPlanes({ workflow: "crunch", stage }).position,
  values: { base: { branch: "main", commit: "c0" }, phases: entered.map((phase) => ({ phase })) },
});
const found = (change: Partial<IssueSnapshot>): readonly Finding[] =>
  compareInputs({ saved: inputs(), current: inputs(change) });

/** As a resume does it. */
function judged(findings: readonly Finding[], at: Standing): ResumePlan {
  return planResume({
    run: "r",
    state: { kind: "open" },
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
  const at = standing("enrich");

  test("labels changed: goes on with a warning", () => {
    expect(judged(found({ labels: ["state:enrich", "type:bug"] }), at).kind).toBe("warn");
  });

  test("body modified: asks", () => {
    expect(judged(found({ body: "Do something else." }), at).kind).toBe("ask");
  });

  test("branch gone: made again from what we keep, where crunch would start afresh", () => {
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
  const plan = judged([...found({ labels, body: "Do something else." }), BRANCH, FILES], standing("enrich"));
  expect(plan.kind).toBe("ask");
  const kinds = plan.kind === "nothing" ? [] : plan.judgements.map(({ finding }) => finding.kind);
  expect(kinds).toEqual(["issue_body_changed", "issue_labels_changed", "branch_missing", "files_changed"]);
});

test("defect 7: labels are sets: order, repeats and the run's own state label are no change", () => {
  expect(judged(found({ labels: issue.labels.toReversed() }), standing("enrich")).kind).toBe("resume");
  const own = ["type:feature", "domain:security", "state:implementing"];
  expect(judged(found({ labels: own }), standing("implementing", ["enrich", "implementing"])).kind).toBe("resume");
  // Stopped after the transition and before the new label was set.
  expect(judged(found({ labels: own }), standing("e2e", ["enrich", "implementing"])).kind).toBe("resume");
  expect(judged(found({ labels: [...own, "urgent"] }), standing("implementing")).kind).toBe("warn");
});

describe("defect 8: the state label moves the run", () => {
  const move = (labels: readonly string[], at: Standing) => crunchFreshness.relocate(labels, at)?.stage ?? null;

  test("on and back, by the old word for e2e too, and to its end", () => {
    expect(move(["state:docs"], standing("implementing"))).toBe("docs");
    expect(move(["state:enrich", "x"], standing("implementing"))).toBe("enrich");
    expect(move(["state:validation"], standing("implementing"))).toBe("e2e");
    expect(move(["state:done"], standing("docs"))).toBe("done");
    expect(crunchFreshness.relocate(["state:docs"], standing("implementing"))?.why).toContain("state:docs");
  });

  test("not by what the run itself set, nor where nobody can tell", () => {
    expect(move(["state:implementing"], standing("implementing"))).toBe(null);
    expect(move(["state:implementing"], standing("e2e", ["implementing"]))).toBe(null);
    expect(move([], standing("implementing"))).toBe(null);
    expect(move(["state:docs", "state:enrich"], standing("implementing"))).toBe(null);
    expect(move(["state:backlog"], standing("implementing"))).toBe(null);
    expect(move(["state:docs"], standing("fatal"))).toBe(null);
    expect(move(["state:docs"], { ...standing("enrich"), values: { base: null, phases: [] } })).toBe(null);
  });

  test("several state labels, one where no run works, or none: asked about", () => {
    for (const labels of [["state:docs", "state:ready"], ["state:backlog"], ["type:feature"]])
      expect(judged(found({ labels }), standing("enrich")).kind).toBe("ask");
    expect(judged(found({ labels: ["state:docs"] }), standing("enrich")).kind).toBe("warn");
  });
});

test("defect 9: nothing that a resume does writes to the issue", () => {
  const labels = ["state:docs", "type:feature"];
  const plan = judged(found({ labels, title: "T" }), standing("enrich"));
  if (plan.kind !== "warn") return expect.unreachable();
  expect(plan.actions.map(({ kind }) => kind)).toEqual(["take_issue"]);
  expect(plan.actions[0]).toMatchObject({ change: { labels: ["state:docs", "type:feature"], title: "T" } });
});
