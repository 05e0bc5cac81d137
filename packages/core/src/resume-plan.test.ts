import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type IssueSnapshot, type Planes, emptyPlanes } from "./checkpoint.ts";
import {
  FINDING_KINDS,
  type Finding,
  type FindingKind,
  type FindingPolicy,
  VERDICTS,
  type Verdict,
  compareInputs,
  compareSettings,
  defaultFindingPolicy,
  readAccepted,
  reliedOn,
  withAccepted,
} from "./findings.ts";
import type { JsonObject } from "./json.ts";
import { type Answers, type ResumePlan, acceptFindings, parseAnswers, planResume } from "./resume-plan.ts";
import type { RunState } from "./run.ts";

describe("adopt world", () => {
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

  function planesWith(issue: IssueSnapshot, where: "inputs" | "values", config: Planes["config"]): Planes {
    const planes = emptyPlanes();
    const position = { ...planes.position, definition: "d1" };
    const rest = { ...planes, position, config };
    return where === "inputs"
      ? { ...rest, inputs: { ...planes.inputs, issue } }
      : { ...rest, context: { ...planes.context, values: { issue: { ...issue } } } };
  }

  describe("accepting the current state", () => {
    test("is not a finding any more, wherever the run keeps its issue", () => {
      const where = fc.constantFrom("inputs" as const, "values" as const);
      fc.assert(
        fc.property(issues, issues, where, configs, configs, (before, now, place, was, is) => {
          const planes = planesWith(before, place, was);
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
            state: { kind: "active" },
            from: { kind: "newest" },
            findings: look(planes),
            policy: defaultFindingPolicy,
            answers,
            accepted: readAccepted(planes.extensions),
            force: false,
          });
          if (plan.kind !== "warn") throw new Error(`a changed definition warns at least, and this is ${plan.kind}`);
          expect(look(acceptFindings({ planes, actions: plan.actions, current }))).toEqual([]);
        }),
      );
    });

    test("an accepted tip of the remote may be replaced by the next push, if the workflow records what it pushed", () => {
      const commit = "b".repeat(40);
      const action = { kind: "remember", finding: "branch_diverged", actual: { commit }, why: "." } as const;
      const current = { definition: null, config: emptyPlanes().config };
      const plain = emptyPlanes();
      const pushes = { ...plain, context: { ...plain.context, values: { pushed: null } } };
      expect(acceptFindings({ planes: pushes, actions: [action], current }).context.values).toEqual({ pushed: commit });
      expect(acceptFindings({ planes: plain, actions: [action], current }).context.values).toEqual({});
    });
  });
});

describe("resume plan", () => {
  const tip = (letter: string): string => letter.repeat(40);

  /** Samples as the observer makes them, with the fields that the plan reads. */
  const SAMPLE: Readonly<Partial<Record<FindingKind, Pick<Finding, "expected" | "actual">>>> = {
    issue_title_changed: { expected: "old", actual: "new" },
    issue_body_changed: { expected: "old", actual: "new" },
    issue_labels_changed: { expected: [], actual: ["bug"] },
    issue_comments_changed: { expected: [], actual: [{ author: "ann", body: "Hello.", at: null }] },
    issue_closed: { expected: "open", actual: "closed" },
    issue_reopened: { expected: "closed", actual: "open" },
    branch_missing: { expected: { branch: "refs/heads/holdfast/r", head: tip("a") }, actual: null },
    branch_diverged: { expected: { head: tip("a") }, actual: { commit: tip("b") } },
    work_not_merged: { expected: { head: tip("a") }, actual: { number: 7, merged: tip("b") } },
    store_damaged: { expected: { sequence: 4 }, actual: "torn" },
  };
  const sample = (kind: FindingKind): Finding => ({
    kind,
    summary: `${kind} happened`,
    expected: null,
    actual: { seen: kind },
    ...SAMPLE[kind],
  });

  const open: RunState = { kind: "active" };
  const ended: RunState = { kind: "failed", at: "t", reason: "4 reviews without progress" };

  function plan(
    findings: readonly Finding[],
    more: Partial<Parameters<typeof planResume>[0]> & { readonly extensions?: JsonObject } = {},
  ): ResumePlan {
    const { extensions = {}, ...rest } = more;
    return planResume({
      run: "r",
      state: open,
      from: { kind: "newest" },
      findings,
      policy: defaultFindingPolicy,
      answers: {},
      accepted: readAccepted(extensions),
      force: false,
      ...rest,
    });
  }
  const kindsOf = (found: ResumePlan): readonly string[] =>
    "actions" in found ? found.actions.map((a) => a.kind) : [];

  describe("what a resume does about", () => {
    test("nothing at all: it resumes and does nothing", () => {
      expect(plan([])).toEqual({ kind: "resume", judgements: [], actions: [] });
    });

    test("a changed issue: asks, then takes it as one new task with the diff as feedback", () => {
      const findings: readonly Finding[] = [
        { ...sample("issue_body_changed"), diff: "- old\n+ new" },
        sample("issue_title_changed"),
        sample("issue_labels_changed"),
      ];
      const asked = plan(findings);
      expect(asked).toMatchObject({ kind: "ask", actions: [], why: "issue_body_changed happened" });
      expect(asked).toMatchObject({ hint: expect.stringContaining("holdfast resume r --accept issue_body_changed`") });
      const accepted = plan(findings, { answers: { issue_body_changed: "accept" } });
      expect(accepted).toMatchObject({
        kind: "warn",
        actions: [{ kind: "take_issue", change: { title: "new", body: "new", labels: ["bug"] } }],
      });
      expect(accepted).toMatchObject({ actions: [{ feedback: expect.stringContaining("- old\n+ new") }] });
    });

    test("a merged pull request: the run is done, and nothing is created again", () => {
      const found = plan([sample("worktree_missing"), sample("pull_request_merged"), sample("base_moved")]);
      expect(found.kind).toBe("done");
      expect(kindsOf(found)).toEqual(["finish"]);
    });

    test("consequences of a merge (issue closed, base moved, branch deleted) ask nothing", () => {
      const findings = ["issue_closed", "base_moved", "branch_diverged", "pull_request_merged"] as const;
      const found = plan(findings.map(sample));
      expect(found).toMatchObject({ kind: "done", judgements: [{ decision: "moot" }, {}, { decision: "moot" }, {}] });
      expect(kindsOf(found)).toEqual(["keep_tips", "finish"]);
    });

    test("a pull request that the run merged itself: consequences ask nothing, and the run continues", () => {
      const own: Finding = { ...sample("pull_request_merged"), actual: { number: 7, own: true } };
      const found = plan([own, sample("issue_closed"), sample("base_moved")]);
      expect(found.kind).toBe("warn");
      expect(kindsOf(found)).not.toContain("finish");
    });

    test("a pull request merged without the last commits: asks, keeping them; then done", () => {
      const findings = [sample("pull_request_merged"), sample("work_not_merged")];
      expect(plan(findings)).toMatchObject({ kind: "ask", actions: [{ kind: "keep_tips", commits: [tip("a")] }] });
      expect(kindsOf(plan(findings, { answers: { work_not_merged: "accept" } }))).toEqual(["keep_tips", "finish"]);
    });

    test("a forced push: both tips are kept at once, and it asks", () => {
      const found = plan([sample("branch_diverged")]);
      expect(found).toMatchObject({ kind: "ask", actions: [{ kind: "keep_tips", commits: [tip("a"), tip("b")] }] });
    });

    test("branch and worktree missing: created again, the branch first", () => {
      const found = plan([sample("worktree_missing"), sample("branch_missing")]);
      expect(found.kind).toBe("warn");
      expect(kindsOf(found)).toEqual(["recreate_branch", "recreate_worktree"]);
    });

    test("changed files: kept unless a restore is requested", () => {
      expect(kindsOf(plan([sample("files_changed")]))).toEqual(["take_files"]);
      const back = plan([sample("files_changed")], { answers: parseAnswers(["files_changed=put_back"]) });
      expect(kindsOf(back)).toEqual(["put_files_back"]);
    });

    test("damage: quarantined, an older checkpoint is used, and this is reported", () => {
      const found = plan([sample("store_damaged")], {
        from: { kind: "newest_intact", sequence: 3, why: "newer ones are damaged" },
      });
      expect(found).toMatchObject({
        kind: "warn",
        actions: [
          { kind: "quarantine", sequence: 4 },
          { kind: "go_back", sequence: 3 },
        ],
      });
    });

    test("an ended run: done is a success, failed is refused with its reason, unless forced from a chosen checkpoint", () => {
      const done: RunState = { kind: "done", at: "t" };
      const chosen = { from: { kind: "chosen", sequence: 2 }, force: true } as const;
      expect(plan([sample("tree_missing")], { state: done })).toMatchObject({ kind: "done", actions: [] });
      expect(plan([], { state: ended })).toMatchObject({ kind: "refuse", why: expect.stringContaining("4 reviews") });
      expect(plan([], { state: ended, force: true }).kind).toBe("refuse");
      expect(plan([], { state: ended, ...chosen })).toMatchObject({ actions: [{ kind: "go_back", reopens: true }] });
      expect(plan([], { state: done, ...chosen })).toMatchObject({ actions: [{ kind: "go_back", reopens: true }] });
    });

    test("done, and an older checkpoint is named without force: refused, with both ways to go back to it", () => {
      const found = plan([], { state: { kind: "done", at: "t" }, from: { kind: "chosen", sequence: 2 } });
      expect(found).toMatchObject({ kind: "refuse", why: expect.stringContaining("done since t") });
      expect(found).toMatchObject({
        hint: expect.stringMatching(/`holdfast fork r@2`.*`holdfast resume r@2 --force`/),
      });
    });
  });

  const policies: fc.Arbitrary<FindingPolicy> = fc
    .array(fc.constantFrom(...VERDICTS), { minLength: FINDING_KINDS.length, maxLength: FINDING_KINDS.length })
    .map((verdicts) => {
      const policy: Record<FindingKind, Verdict> = { ...defaultFindingPolicy };
      for (const [place, kind] of FINDING_KINDS.entries()) policy[kind] = verdicts[place] ?? "refuse";
      return policy;
    });
  const some = fc.subarray([...FINDING_KINDS]).map((kinds) => kinds.map(sample));
  const shuffled = (findings: readonly Finding[]): fc.Arbitrary<Finding[]> =>
    fc.shuffledSubarray([...findings], { minLength: findings.length });

  describe("laws", () => {
    test("the worst decides", () => {
      fc.assert(
        fc.property(some, policies, (findings, policy) => {
          const merged = findings.some(({ kind }) => kind === "pull_request_merged" && policy[kind] !== "ask");
          const counts = ({ kind }: Finding): boolean =>
            !merged || kind === "work_not_merged" || policy[kind] !== "ask";
          const ranks = findings.filter(counts).map(({ kind }) => VERDICTS.indexOf(policy[kind]));
          const worst = Math.max(0, ...ranks);
          const ends = findings.some(({ kind }) => kind === "pull_request_merged") && worst < VERDICTS.indexOf("ask");
          expect(plan(findings, { policy }).kind).toBe(ends ? "done" : VERDICTS[worst]);
        }),
      );
    });

    test("the order of the findings does not matter", () => {
      const two = some.chain((findings) => fc.tuple(fc.constant(findings), shuffled(findings)));
      fc.assert(
        fc.property(two, policies, ([a, b], policy) => {
          expect(plan(a, { policy })).toEqual(plan(b, { policy }));
        }),
      );
    });

    test("a plan that asks only keeps; a plan that refuses does nothing", () => {
      fc.assert(
        fc.property(some, policies, (findings, policy) => {
          const found = plan(findings, { policy });
          if (found.kind === "ask") expect(kindsOf(found).every((kind) => kind === "keep_tips")).toBe(true);
          if (found.kind === "refuse") expect(kindsOf(found)).toEqual([]);
        }),
      );
    });

    test("every action gives its reason in a sentence", () => {
      for (const kind of FINDING_KINDS) {
        const found = plan([sample(kind)], { answers: { [kind]: "accept" } });
        for (const action of "actions" in found ? found.actions : []) expect(action.why).toMatch(/^[A-Z].{15,}\.$/);
      }
    });

    test("an accepted finding never asks again: it is settled, or remembered in the checkpoint", () => {
      fc.assert(
        fc.property(some, policies, (findings, policy) => {
          const answers: Answers = Object.fromEntries(FINDING_KINDS.map((kind) => [kind, "accept"]));
          const first = plan(findings, { policy, answers });
          if (first.kind === "refuse" || !("actions" in first)) return;
          expect(first.kind).not.toBe("ask");
          let extensions: JsonObject = {};
          for (const action of first.actions) {
            if (action.kind === "remember")
              extensions = withAccepted(extensions, { kind: action.finding, actual: action.actual });
          }
          if (first.kind === "done") return;
          // Findings that change no plane come again on the next resume.
          const again = findings.filter(({ kind }) =>
            first.actions.some((a) => a.kind === "remember" && a.finding === kind),
          );
          expect(plan(again, { policy, extensions }).kind).toBe("resume");
        }),
      );
    });

    test("the current state is compared, not its name: another state asks again", () => {
      const extensions = withAccepted({}, { kind: "branch_diverged", actual: { commit: tip("b") } });
      expect(plan([sample("branch_diverged")], { extensions }).kind).toBe("resume");
      const moved = { ...sample("branch_diverged"), actual: { commit: tip("c") } };
      expect(plan([moved], { extensions }).kind).toBe("ask");
    });

    test("a question is a warning once accepted; every kind that may ask is settled by something", () => {
      for (const kind of FINDING_KINDS) {
        const policy = { ...defaultFindingPolicy, [kind]: "ask" as const };
        const found = plan([sample(kind)], { policy, answers: { [kind]: "accept" } });
        expect(["warn", "done"]).toContain(found.kind);
        const never = ["issue_mismatch", "tree_missing"];
        expect(kindsOf(found).length > 0).toBe(!never.includes(kind));
      }
    });
  });

  test("answers from a command line", () => {
    expect(parseAnswers(["issue_closed", "files_changed"])).toEqual({
      issue_closed: "accept",
      files_changed: "accept",
    });
    expect(() => parseAnswers(["issue_body"])).toThrow('"issue_body" is not a finding');
    expect(() => parseAnswers(["issue_closed=put_back"])).toThrow("is not an answer");
  });
});
