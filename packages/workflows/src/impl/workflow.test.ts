import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { type Position, betterOf } from "@holdfast/core/position";
import { acceptFindings } from "@holdfast/core/resume-plan";
import type { StageResult } from "@holdfast/core/transitions";
import { implFreshness, implLimits } from "./limits.ts";
import { type ImplOptions, parseImplOptions } from "./options.ts";
import { IMPL_EVENTS, type ImplState, type Progress, conclude, implShape, initialImplState } from "./state.ts";
import { implGuard } from "./workflow.ts";

const hintOf = (values: ImplState | undefined): string =>
  implFreshness.failedHint?.({ run: "r", stage: "fatal", values: values ?? {} }) ?? "";

test("how the issue changed stays in the feedback until a prompt of impl had it", () => {
  const action = { kind: "take_issue", change: { body: "new" }, feedback: "- old\n+ new", why: "" } as const;
  const current = { definition: null, config: emptyPlanes().config };
  const { position } = acceptFindings({ planes: emptyPlanes(), actions: [action], current });
  const after = (stage: string, feedback: string | null) =>
    conclude(
      { position: { ...position, stage }, now: () => 0 },
      { event: "fatal", reason: "", state: initialImplState, feedback },
    ).feedback;
  expect(after("ci", "Tests fail.")).toBe(`Tests fail.\n\n${position.feedback}`);
  expect(after("review", null)).toBe(position.feedback);
  expect(after("impl", null)).toBeNull();
});

describe("guard", () => {
  const options = parseImplOptions({ maxIterations: 1000 }).options;
  type Move = { readonly event: string; readonly score?: number; readonly progress?: Progress };

  /**
   * Runs guard, transition table and best score without an engine. A resume in between is a round trip through JSON.
   */
  function play(moves: readonly Move[], given: ImplOptions = options, stage = "setup") {
    const shape = implShape(given);
    const guard = implGuard(given);
    let position: Position = { ...emptyPlanes().position, workflow: "impl", stage };
    if (stage !== "setup") position = { ...position, iteration: 1 };
    let last: StageResult<ImplState> | undefined;
    let taken = 0;
    for (const { event, score, progress } of moves) {
      if (position.stage === "fatal" || position.stage === "done") break;
      const result = {
        event,
        reason: `because of ${event}`,
        state: { ...initialImplState, progress: progress ?? null },
      };
      const guarded = guard({ position, result: score === undefined ? result : { ...result, score }, options: {} });
      const next = shape.transitions[position.stage]?.[guarded.result.event];
      if (next === undefined) throw new Error(`no ${position.stage}+${guarded.result.event}`);
      taken += 1;
      last = guarded.result;
      const best = betterOf(position.best, { sequence: taken, score: score ?? null });
      const parsed: Position = JSON.parse(JSON.stringify({ ...guarded.position, best, stage: next }));
      position = parsed;
    }
    return { position, last, taken };
  }

  const repeat = (moves: readonly Move[], times: number): readonly Move[] =>
    Array.from({ length: times }, () => moves).flat();
  const start: readonly Move[] = [{ event: "setup_done" }];
  const implement: readonly Move[] = [{ event: "impl_done", progress: "complete" }, { event: "review_pass" }];

  describe("limits", () => {
    test("six pull request attempts are made and the seventh is not begun", () => {
      const round = [...implement, { event: "pr_fail_fixable" }];
      expect(play([...start, ...repeat(round, 6)]).position).toMatchObject({ stage: "impl", attempts: { pr: 6 } });
      const { position, last } = play([...start, ...repeat(round, 7)]);
      expect(position).toMatchObject({ stage: "fatal", attempts: { pr: 6 } });
      expect(last?.reason).toBe("Reached PR retry limit (6 attempts)");
    });

    test.each([
      [
        "maxIterations",
        [...repeat([{ event: "impl_not_done", progress: "changed" }], 2)],
        { maxIterations: 2 },
        "impl",
        3,
      ],
      ["stuck", repeat([{ event: "impl_not_done", progress: "none" }], 3), {}, "impl", 4],
      ["parseStreak", repeat([{ event: "parse_fail" }], 3), {}, "impl", 4],
      ["reviewStreak", repeat([{ event: "impl_done" }, { event: "review_fail", score: 50 }], 4), {}, "impl", 5],
      ["prAttempts", [...repeat([...implement, { event: "pr_fail_fixable" }], 6), ...implement], {}, "pr", 7],
      ["rebases", [...implement, { event: "pr_fail_need_rebase" }], { limits: { rebases: 0 } }, "rebase", 1],
    ] as const)("%s: a run that it ended has the stage to continue from", (limit, moves, given, stage, iteration) => {
      const { position, last } = play([...start, ...moves], parseImplOptions({ ...given }).options);
      expect(position.stage).toBe("fatal");
      expect(last?.state?.stopped).toEqual({ limit, stage, iteration });
      expect(implShape(options).stages).toContain(stage);
      const [flag = ""] = Object.entries(implLimits).find(([name]) => hintOf(last?.state).includes(name)) ?? [];
      const planes = { ...emptyPlanes(), position };
      const change = implLimits[flag]?.({
        run: { id: "r", state: { kind: "failed", at: "", reason: "" } },
        planes: {
          ...planes,
          config: { ...planes.config, inputs: { ...given } },
          context: { ...planes.context, values: last?.state ?? {} },
        },
        value: 20,
      });
      expect(change?.continuesAt).toEqual({ stage, iteration });
      expect(change?.values).not.toHaveProperty("stopped");
    });

    test("the limit of pull request attempts names the last refusal", () => {
      const entry = { stage: "pr", iteration: 6, timestamp: "", event: "pr_fail_fixable", score: null } as const;
      const history = [
        { ...entry, result: "retry", reason: "a hook said no" },
        { ...entry, stage: "review", event: "review_pass", result: "success", reason: "fine" },
      ] as const;
      const position = { ...emptyPlanes().position, workflow: "impl", stage: "review", attempts: { pr: 6 } };
      const result = { event: "review_pass", reason: "fine", state: { ...initialImplState, history } };
      expect(implGuard(options)({ position, result, options: {} }).result).toMatchObject({
        event: "fatal",
        reason: "Reached PR retry limit (6 attempts): a hook said no",
      });
    });

    test("three rebases are made and the fourth is not begun", () => {
      const round: readonly Move[] = [
        { event: "review_pass" },
        { event: "pr_fail_need_rebase" },
        { event: "rebase_ok" },
      ];
      const before: readonly Move[] = [...start, { event: "impl_done" }];
      expect(play([...before, ...repeat(round, 3)]).position).toMatchObject({
        stage: "review",
        attempts: { rebase: 3 },
      });
      const { position, last } = play([...before, ...repeat(round, 4)]);
      expect(position.stage).toBe("fatal");
      expect(last?.reason).toContain("Reached rebase retry limit (3 attempts): because of pr_fail_need_rebase");
    });

    test("the third parse failure in a row is fatal, also with unfinished iterations in between", () => {
      const fail: readonly Move[] = [{ event: "parse_fail" }, { event: "impl_not_done", progress: "changed" }];
      expect(play([...start, ...repeat(fail, 2)]).position.stage).toBe("impl");
      const { position, last } = play([...start, ...repeat(fail, 3)]);
      expect(position.stage).toBe("fatal");
      expect(last?.reason).toContain("Reached parse gate retry limit (3 consecutive parse failures)");
    });

    test("a passing gate resets the count of parse failures", () => {
      const moves: readonly Move[] = [
        { event: "parse_fail" },
        { event: "parse_fail" },
        { event: "impl_done" },
        { event: "review_fail", score: 1 },
      ];
      expect(play([...start, ...moves, { event: "parse_fail" }]).position).toMatchObject({
        stage: "impl",
        streaks: { parse: 1 },
      });
    });

    test.each([
      [[60, 75, 70, 65, 64], 5],
      [[60, 60, 60, 60], 4],
      [[70, 60, 65, 69], 4],
      [[50, 60, 55, 61, 58, 59, 60], 7],
    ])("scores %j: no improvement on the best is fatal at review %i", (scores, at) => {
      const moves = scores.flatMap((score): readonly Move[] => [
        { event: "impl_done" },
        { event: "review_fail", score },
      ]);
      const { position, last } = play([...start, ...moves]);
      expect(position).toMatchObject({ stage: "fatal", attempts: { review: at } });
      expect(last?.reason).toContain("Review scores showed no improvement for 4 consecutive failures");
    });

    test("a review without a score improves nothing", () => {
      const moves = repeat([{ event: "impl_done" }, { event: "review_fail" }], 4);
      expect(play([...start, ...moves]).position.stage).toBe("fatal");
    });

    test("the iteration after the last allowed one is fatal, with what led to it", () => {
      const few = parseImplOptions({ maxIterations: 3 }).options;
      const moves = repeat([{ event: "impl_not_done", progress: "changed" }], 3);
      expect(play([...start, ...moves.slice(1)], few).position).toMatchObject({ stage: "impl", iteration: 3 });
      const { position, last } = play([...start, ...moves], few);
      expect(position).toMatchObject({ stage: "fatal", iteration: 3 });
      expect(last?.reason).toBe("Max iteration limit (3) reached: because of impl_not_done");
    });

    test("no change and no marker for three iterations is stuck; any change resets the count", () => {
      const none: Move = { event: "impl_not_done", progress: "none" };
      const some: Move = { event: "impl_not_done", progress: "changed" };
      expect(play([...start, none, none, some, none, none]).position.stage).toBe("impl");
      const { position, last } = play([...start, none, none, some, none, none, none]);
      expect(position.stage).toBe("fatal");
      expect(last?.reason).toMatch(/^Stuck/);
    });

    test("fixes for CI are iterations and no pull request attempts", () => {
      const ci = parseImplOptions({ maxIterations: 20, waitForCi: true }).options;
      const round = [...implement, { event: "pr_pass" }, { event: "ci_fail" }];
      const { position } = play([...start, ...repeat(round, 10)], ci);
      expect(position).toMatchObject({ stage: "impl", iteration: 11 });
      expect(position.attempts["pr"]).toBeUndefined();
    });

    test("livelock after a rebase: a clean rebase goes to review and spends no iteration", () => {
      const { position } = play([...start, ...implement, { event: "pr_fail_need_rebase" }, { event: "rebase_ok" }]);
      expect(position).toMatchObject({ stage: "review", iteration: 1 });
    });

    test.each([true, false])("afterRebase: impl, as in the seed, is one more iteration (review: %j)", (review) => {
      const given = parseImplOptions({ review, afterRebase: "impl" }).options;
      const moves = [...start, ...(review ? implement : implement.slice(0, 1)), { event: "pr_fail_need_rebase" }];
      const { position } = play([...moves, { event: "rebase_ok" }], given);
      expect(position).toMatchObject({ stage: "impl", iteration: 2, attempts: { rebase: 1 } });
    });

    test("the last line of history has the true reason of the end", () => {
      const state: ImplState = {
        ...initialImplState,
        history: [
          {
            stage: "impl",
            iteration: 1,
            timestamp: "t",
            result: "retry",
            event: "parse_fail",
            reason: "r",
            score: null,
          },
        ],
      };
      const position: Position = { ...emptyPlanes().position, stage: "impl", iteration: 1, streaks: { parse: 2 } };
      const { result } = implGuard(options)({
        position,
        result: { event: "parse_fail", reason: "r", state },
        options: {},
      });
      expect(result.state?.history[0]).toMatchObject({ result: "failure", reason: result.reason });
    });
  });

  describe("any run", () => {
    const ends = ["fatal", "done"];
    const given = parseImplOptions({ waitForCi: true, simplify: true }).options;
    const shape = implShape(given);
    const choices = fc.array(
      fc.record({
        pick: fc.nat(),
        score: fc.integer({ min: 0, max: 100 }),
        progress: fc.constantFrom<Progress>("none", "changed", "complete"),
      }),
      { maxLength: 300 },
    );

    /** Follows the transition table with any choices, with a resume (a JSON round trip) before each. */
    function walk(picks: readonly { pick: number; score: number; progress: Progress }[], from: ImplOptions = given) {
      const guard = implGuard(from);
      let position: Position = { ...emptyPlanes().position, workflow: "impl", stage: "setup" };
      const seen: { before: Position; after: Position; event: string }[] = [];
      for (const { pick, score, progress } of picks) {
        if (ends.includes(position.stage)) break;
        const events = Object.keys(shape.transitions[position.stage] ?? {}).filter((event) => event !== "fatal");
        const event = events[pick % events.length] ?? "fatal";
        const result: StageResult<ImplState> = {
          event,
          reason: "r",
          state: { ...initialImplState, progress },
          ...(event === "review_fail" ? { score } : {}),
        };
        const guarded = guard({ position, result, options: {} });
        const next = shape.transitions[position.stage]?.[guarded.result.event] ?? "none";
        const best = betterOf(position.best, { sequence: seen.length, score: result.score ?? null });
        const after: Position = JSON.parse(JSON.stringify({ ...guarded.position, best, stage: next }));
        seen.push({ before: position, after, event });
        position = after;
      }
      return { position, seen };
    }

    test("counters reset on resume: attempts never shrink and iterations never go back", () => {
      fc.assert(
        fc.property(choices, (picks) => {
          for (const { before, after } of walk(picks).seen) {
            expect(after.iteration).toBeGreaterThanOrEqual(before.iteration);
            for (const [name, count] of Object.entries(before.attempts))
              expect(after.attempts[name]).toBeGreaterThanOrEqual(count);
          }
        }),
      );
    });

    test("finishing an implementation forgets no review", () => {
      fc.assert(
        fc.property(choices, (picks) => {
          for (const { before, after, event } of walk(picks).seen) {
            if (event !== "impl_done") continue;
            expect(after.streaks["review"]).toBe(before.streaks["review"]);
            expect(after.attempts).toEqual(before.attempts);
          }
        }),
      );
    });

    test("no limit is ever exceeded", () => {
      fc.assert(
        fc.property(choices, (picks) => {
          for (const { after } of walk(picks).seen) {
            const { attempts, streaks } = after;
            expect(after.iteration).toBeLessThanOrEqual(given.maxIterations);
            if (after.stage === "fatal") continue;
            if (after.stage === "pr") expect(attempts["pr"] ?? 0).toBeLessThan(6);
            if (after.stage === "rebase") expect(attempts["rebase"] ?? 0).toBeLessThan(3);
            expect(streaks["parse"] ?? 0).toBeLessThan(3);
            expect(streaks["review"] ?? 0).toBeLessThan(4);
            expect(streaks["stuck"] ?? 0).toBeLessThan(3);
          }
        }),
      );
    });

    test("every run ends", () => {
      fc.assert(
        fc.property(
          fc.infiniteStream(
            fc.record({ pick: fc.nat(), score: fc.nat(100), progress: fc.constant<Progress>("changed") }),
          ),
          (stream) => {
            expect(ends).toContain(walk([...stream.take(300)]).position.stage);
          },
        ),
      );
    });
  });
});

describe("workflow shape", () => {
  const all = [true, false].flatMap((review) =>
    [true, false].flatMap((simplify) =>
      [true, false].flatMap((waitForCi) =>
        (["review", "impl"] as const).map((afterRebase) => ({ review, simplify, waitForCi, afterRebase })),
      ),
    ),
  );

  describe("the shape of impl", () => {
    test.each(all)("%j is valid and every working stage can fail", (options) => {
      const { stages, transitions, events, initial, ends } = implShape(options);
      const reached = new Set([initial]);
      for (const stage of reached) for (const next of Object.values(transitions[stage] ?? {})) reached.add(next);
      expect([...reached].toSorted()).toEqual([...stages].toSorted());
      const working = stages.filter((stage) => !Object.hasOwn(ends, stage));
      for (const stage of working) expect(transitions[stage]?.["fatal"]).toBe("fatal");
      expect(new Set(Object.values(transitions).flatMap((row) => Object.keys(row)))).toEqual(new Set(events));
    });

    test("with everything on, every event has its transition", () => {
      const shape = implShape({ review: true, simplify: true, waitForCi: true, afterRebase: "review" });
      expect(shape.events).toEqual(IMPL_EVENTS);
      expect(shape.transitions).toMatchObject({
        impl: { impl_done: "review", impl_not_done: "impl", parse_fail: "impl" },
        review: { review_pass: "simplify", review_fail: "impl" },
        simplify: { simp_pass: "pr", simp_fail: "pr" },
        pr: { pr_pass: "ci", pr_fail_fixable: "impl", pr_fail_need_rebase: "rebase" },
        ci: { ci_pass: "done", ci_fail: "impl", ci_conflict: "rebase" },
        rebase: { rebase_ok: "review", rebase_conflict: "fatal" },
      });
    });

    test("stages that are switched off do not exist", () => {
      const shape = implShape({ review: false, simplify: false, waitForCi: false, afterRebase: "review" });
      expect(shape.stages).toEqual(["setup", "impl", "pr", "rebase", "done", "fatal"]);
      expect(shape.transitions).toMatchObject({
        impl: { impl_done: "pr" },
        rebase: { rebase_ok: "pr" },
        pr: { pr_pass: "done" },
      });
    });
  });
});
