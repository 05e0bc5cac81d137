import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FAILURE_CAUSES, type FailureCause } from "./agent.ts";
import {
  type AgentFailure,
  ERROR_ACTIONS,
  type ErrorPolicy,
  type ErrorRule,
  type FailedTry,
  type FailureDecision,
  LAST_ACTIONS,
  decideFailure,
  defaultErrorPolicy,
  delayAt,
  delaysOf,
  fractionOf,
} from "./error-policy.ts";
import { type CallErrors, callErrorsShape, restOfDelay, verdictShape } from "./position.ts";

describe("decide failure", () => {
  const NOW = Date.parse("2026-03-01T12:00:00Z");
  const LATER = "2026-03-01T15:00:00Z";

  function failure(cause: FailureCause, more: Partial<AgentFailure> = {}): AgentFailure {
    return { cause, message: "no", hint: null, until: null, instant: false, ...more };
  }

  function rule(given: Partial<ErrorRule>): ErrorRule {
    const any = { id: "mine", causes: null, types: null, pattern: null, exhausted: "wait" } as const;
    return { ...any, action: "retry", retry: { delaysMs: [100, 200], jitter: 0 }, ...given };
  }

  function policyOf(given: Partial<ErrorPolicy>): ErrorPolicy {
    return { ...defaultErrorPolicy, ...given };
  }

  function matching(source: string): ErrorRule["pattern"] {
    return { source, matches: (text) => new RegExp(source, "i").test(text) };
  }

  function decide(given: Partial<FailedTry> & Pick<FailedTry, "failure">): FailureDecision {
    const asked = { policy: defaultErrorPolicy, agent: "toy", own: "toy", failures: 1, before: undefined };
    return decideFailure({ ...asked, now: NOW, random: 0, ...given });
  }

  /** Decides about the same call repeatedly, each time with the errors that the previous decision left. */
  function decideAll(policy: ErrorPolicy, failures: readonly AgentFailure[]): readonly FailureDecision[] {
    let before: CallErrors | undefined;
    return failures.map((one, at) => {
      const decision = decide({ policy, failure: one, failures: at + 1, before });
      if (decision.kind !== "report") before = decision.errors;
      return decision;
    });
  }

  const times = <T>(count: number, what: T): readonly T[] => Array.from({ length: count }, () => what);

  describe("without any rule", () => {
    test("the provider's failures back off, longer each time, then wait, and a resume grants as many attempts again", () => {
      for (const cause of ["overload", "network", "rate_limit", "hang", "proxy"] as const) {
        const decisions = decideAll(defaultErrorPolicy, times(12, failure(cause)));
        const delays = decisions.map((one) => (one.kind === "retry" ? one.delayMs : null));
        const cycle = [2_000, 10_000, 30_000, 120_000, 300_000, null];
        expect(delays).toEqual([...cycle, ...cycle]);
        const waits =
          cause === "rate_limit"
            ? { for: "quota", until: null }
            : { for: "provider", until: "2026-03-01T12:10:00.000Z" };
        for (const at of [5, 11]) expect(decisions[at]).toMatchObject({ kind: "wait", ...waits });
        expect(decisions[5]).toMatchObject({ reason: `toy failed 6 times (${cause}): no` });
      }
    });

    test("a journal that only counted failures continues in the same cycle", () => {
      const decisions = Array.from({ length: 12 }, (_, at) =>
        decide({ failure: failure("overload"), failures: at + 1, before: undefined }),
      );
      expect(decisions.map((one) => (one.kind === "retry" ? one.delayMs : null))).toEqual(
        decideAll(defaultErrorPolicy, times(12, failure("overload"))).map((one) =>
          one.kind === "retry" ? one.delayMs : null,
        ),
      );
    });

    test("with a future time the run waits until then; a past time is ignored", () => {
      expect(decide({ failure: failure("rate_limit", { until: LATER }) })).toMatchObject({
        kind: "wait",
        for: "quota",
        until: LATER,
        verdict: { rule: "provider", action: "wait" },
      });
      expect(decide({ failure: failure("rate_limit", { until: "2026-03-01T12:00:00Z" }) }).kind).toBe("retry");
    });

    test("a failure that only the user can fix waits for the user, with the fix in the reason", () => {
      for (const cause of ["auth", "billing", "missing", "too_old", "context_too_long", "refusal"] as const)
        expect(decide({ failure: failure(cause, { hint: "Run toy login.", instant: true }) })).toMatchObject({
          kind: "wait",
          for: "you",
          reason: `toy cannot work (${cause}): no. Run toy login.`,
        });
    });

    test("the stage decides every other failure, unless nothing was done", () => {
      const provider = ["overload", "network", "rate_limit", "hang", "proxy", "killed"];
      const user = ["auth", "billing", "missing", "too_old", "context_too_long", "refusal"];
      const handled: readonly string[] = [...provider, ...user];
      for (const cause of FAILURE_CAUSES.filter((one) => !handled.includes(one))) {
        expect(decide({ failure: failure(cause) })).toEqual({ kind: "report" });
        const again = cause === "permission_denied" ? "report" : "retry";
        expect(decide({ failure: failure(cause, { instant: true }) }).kind).toBe(again);
      }
    });

    test("a lost session costs nothing the first time, a wait the second", () => {
      const lost = failure("session_lost");
      expect(decide({ failure: lost, lostSession: "first" })).toMatchObject({ kind: "fresh" });
      expect(decide({ failure: lost, lostSession: "again" })).toMatchObject({ kind: "retry", delayMs: 2_000 });
    });
  });

  describe("rules", () => {
    test("the first matching rule decides: by cause, by type, by message", () => {
      const rules = [
        rule({ id: "said", pattern: matching("disk (is )?full"), action: "abort" }),
        rule({ id: "cause", causes: ["crash"], action: "escalate" }),
        rule({ id: "type", types: ["system"], action: "ignore" }),
      ];
      const of = (one: AgentFailure) => decide({ policy: policyOf({ rules }), failure: one });
      expect(of(failure("crash", { message: "the Disk is full!" }))).toMatchObject({
        kind: "abort",
        reason: "Rule said ends the run: toy failed once (crash): the Disk is full!",
        errors: { abort: expect.stringContaining("Rule said") },
      });
      expect(of(failure("crash"))).toMatchObject({ kind: "wait", for: "you", verdict: { rule: "cause" } });
      expect(of(failure("killed", { instant: true }))).toEqual({ kind: "report" });
      expect(of(failure("network"))).toMatchObject({ kind: "retry", verdict: { rule: "provider" } });
    });

    test.each([
      ["wait", { kind: "wait", for: "you", until: null }],
      ["escalate", { kind: "wait", for: "you", reason: "Rule mine asks for you: toy failed 3 times (crash): no" }],
      ["abort", { kind: "abort" }],
      ["ignore", { kind: "report" }],
    ] as const)("retries that are used up: %s", (exhausted, expected) => {
      const policy = policyOf({ rules: [rule({ exhausted })] });
      const decisions = decideAll(policy, times(3, failure("crash")));
      expect(decisions.map((one) => (one.kind === "retry" ? one.delayMs : null))).toEqual([100, 200, null]);
      expect(decisions[0]).toMatchObject({ verdict: { rule: "mine", action: "retry", why: "try 2 of 3" } });
      expect(decisions[2]).toMatchObject(expected);
    });

    test("an id that every object inherits is an ordinary id", () => {
      const policy = policyOf({ rules: [rule({ id: "constructor" })] });
      const decisions = decideAll(policy, times(3, failure("crash")));
      expect(decisions.map(({ kind }) => kind)).toEqual(["retry", "retry", "wait"]);
    });
  });

  describe("fallback", () => {
    const fallback = { agents: ["toy", "codex", "gemini:pro"], tries: 2 };

    test("retried, then the other agents in order, each failed after its attempts; then it waits, and the sequence starts again", () => {
      const policy = policyOf({ exhausted: "fallback", fallback, retry: { delaysMs: [10], jitter: 0 } });
      const decisions = decideAll(policy, times(12, failure("overload")));
      expect(decisions.map((one) => (one.kind === "fallback" ? one.agent : one.kind))).toEqual(
        [0, 1].flatMap(() => ["retry", "codex", "retry", "gemini:pro", "retry", "wait"]),
      );
      expect(decisions[1]).toMatchObject({ verdict: { action: "fallback", why: "codex takes over from toy" } });
      expect(decisions[5]).toMatchObject({
        reason: "toy, then codex, then gemini:pro failed, 6 times in all (overload): no",
      });
    });

    test("no wait for a time while another agent is available; with none left, it waits for the earliest time", () => {
      const policy = policyOf({ rules: [rule({ action: "fallback" })], fallback: { ...fallback, tries: 1 } });
      const [first, second, third] = decideAll(policy, [
        failure("rate_limit", { until: LATER }),
        failure("rate_limit", { until: "2026-03-01T14:00:00Z" }),
        failure("rate_limit"),
      ]);
      expect([first?.kind, second?.kind]).toEqual(["fallback", "fallback"]);
      expect(third).toMatchObject({ kind: "wait", for: "quota", until: "2026-03-01T14:00:00Z" });
    });

    test("a time that has passed meanwhile is not waited for", () => {
      const policy = policyOf({ rules: [rule({ action: "fallback" })], fallback: { agents: ["b"], tries: 1 } });
      const first = decide({ policy, failure: failure("rate_limit", { until: "2026-03-01T12:00:01Z" }) });
      const before = first.kind === "fallback" ? first.errors : undefined;
      const limited = { policy, failures: 2, before, now: NOW + 5_000 };
      expect(decide({ ...limited, failure: failure("rate_limit", { until: LATER }) })).toMatchObject({ until: LATER });
      expect(decide({ ...limited, failure: failure("rate_limit") })).toMatchObject({ kind: "wait", until: null });
    });

    test("an agent that is not installed is skipped; if all are missing, a person is asked, with each agent listed", () => {
      const policy = policyOf({ exhausted: "fallback", fallback, retry: { delaysMs: [], jitter: 0 } });
      const missing = failure("missing", { message: "not there", hint: "Install it." });
      const decisions = decideAll(policy, [failure("overload"), missing, missing]);
      expect(decisions.map(({ kind }) => kind)).toEqual(["fallback", "fallback", "wait"]);
      expect(decisions[2]).toMatchObject({
        for: "you",
        reason: expect.stringMatching(/toy, then codex, then gemini:pro failed, 3 times in all .*Install it/),
      });
      expect(decide({ policy, failure: missing })).toMatchObject({ kind: "wait", for: "you" });
    });
  });

  test("for any failures: it ends, with a rule named, in a form that the journal can hold, and never twice with one agent", () => {
    const rules = fc.array(
      fc
        .record({
          action: fc.constantFrom(...ERROR_ACTIONS),
          exhausted: fc.constantFrom(...LAST_ACTIONS),
          causes: fc.option(fc.subarray([...FAILURE_CAUSES], { minLength: 1 })),
          delays: fc.array(fc.nat(1_000), { maxLength: 3 }),
        })
        .map(({ delays, ...given }) => rule({ ...given, retry: { delaysMs: delays, jitter: 0.5 } })),
      { maxLength: 3 },
    );
    const policies = fc.record({
      rules,
      exhausted: fc.constantFrom(...LAST_ACTIONS),
      fallback: fc.record({ agents: fc.subarray(["a", "b", "toy"]), tries: fc.integer({ min: 1, max: 3 }) }),
    });
    const failures = fc.array(
      fc.record({
        cause: fc.constantFrom(...FAILURE_CAUSES),
        instant: fc.boolean(),
        until: fc.option(fc.constant(LATER)),
      }),
      { minLength: 30, maxLength: 30 },
    );
    fc.assert(
      fc.property(policies, failures, (policy, causes) => {
        const decisions = decideAll(
          policyOf(policy),
          causes.map(({ cause, ...more }) => failure(cause, more)),
        );
        // At most three agents with three attempts under each of four rules.
        expect(decisions.some(({ kind }) => kind !== "retry" && kind !== "fallback")).toBe(true);
        for (const decision of decisions) {
          if (decision.kind === "report") continue;
          expect(callErrorsShape(JSON.parse(JSON.stringify(decision.errors)))).toBeNull();
          expect(verdictShape(JSON.parse(JSON.stringify(decision.verdict)))).toBeNull();
          const { agents } = decision.errors;
          expect(new Set([...agents, "toy"]).size).toBe(agents.length + 1);
        }
      }),
    );
  });

  test("the rest of a wait is never more than the wait, for any clock change", () => {
    const errors = { counts: {}, agents: [], retryAt: "2026-03-01T12:00:10Z", delayMs: 10_000, until: null };
    expect([0, 4_000, 10_000, 99_000, -3_600_000].map((passed) => restOfDelay(errors, NOW + passed))).toEqual([
      10_000, 6_000, 0, 0, 10_000,
    ]);
  });
});

describe("delays", () => {
  test("waits grow by the configured factor, up to the cap", () => {
    const params = { retries: 5, initialMs: 1_000, multiplier: 3, capMs: 20_000 };
    expect(delaysOf(params)).toEqual([1_000, 3_000, 9_000, 20_000, 20_000]);
    expect(delaysOf({ ...params, backoff: "none" })).toEqual([1_000, 1_000, 1_000, 1_000, 1_000]);
    expect(delaysOf({ ...params, backoff: "linear" })).toEqual([1_000, 2_000, 3_000, 4_000, 5_000]);
    expect(delaysOf({ ...params, backoff: "fibonacci" })).toEqual([1_000, 1_000, 2_000, 3_000, 5_000]);
  });

  test("a wait is never shorter than the last, never beyond the cap; jitter only shortens it, within its bound", () => {
    const params = fc.record({
      retries: fc.nat(20),
      initialMs: fc.nat(100_000),
      multiplier: fc.double({ min: 1, max: 100, noNaN: true }),
      capMs: fc.nat(1_000_000),
      backoff: fc.constantFrom("none" as const, "linear" as const, "exponential" as const, "fibonacci" as const),
    });
    const unit = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(params, unit, unit, (given, jitter, random) => {
        const delaysMs = delaysOf(given);
        expect(delaysMs).toEqual(delaysMs.toSorted((a, b) => a - b));
        expect(Math.max(0, ...delaysMs)).toBeLessThanOrEqual(given.capMs);
        delaysMs.forEach((delay, at) => {
          const jittered = delayAt({ delaysMs, jitter }, at, random) ?? -1;
          expect(jittered).toBeLessThanOrEqual(delay);
          expect(jittered).toBeGreaterThanOrEqual(Math.floor(delay * (1 - jitter)));
        });
        expect(delayAt({ delaysMs, jitter }, delaysMs.length, random)).toBeUndefined();
      }),
    );
  });

  test("any text of letters and digits is a fraction, and the first character is the most significant", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]{1,12}$/), (text) => {
        expect(fractionOf(text)).toBeGreaterThanOrEqual(0);
        expect(fractionOf(text)).toBeLessThan(1);
      }),
    );
    expect([fractionOf("0"), fractionOf("i"), fractionOf("i0"), fractionOf("9")]).toEqual([0, 0.5, 0.5, 0.25]);
  });
});
