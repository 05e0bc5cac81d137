import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type CheckResult,
  REJECTIONS,
  type RollbackCandidate,
  type RollbackFacts,
  chooseRollback,
  filesKey,
  findCause,
} from "./rollback.ts";

const candidate = (sequence: number, more: Partial<RollbackCandidate> = {}): RollbackCandidate => ({
  sequence,
  entry: sequence * 10,
  stage: "work",
  iteration: 1,
  tree: `t${sequence}`,
  damage: null,
  half: [],
  leftBehind: false,
  ended: false,
  changed: null,
  ...more,
});

const check = (sequence: number, pass: boolean, files = `t${sequence}`): CheckResult => ({
  stageAttempt: null,
  name: "test",
  entry: sequence * 10 + 1,
  sequence,
  files,
  pass,
  reason: pass ? "passed" : "failed",
});

const facts = (more: Partial<RollbackFacts>): RollbackFacts => ({
  run: "r",
  state: { kind: "active" },
  candidates: [],
  checks: [],
  scores: [],
  effects: [],
  trouble: { kind: "failed", reason: "it failed" },
  ...more,
});

const NEVER = { pastEffects: false };

test("untested checkpoints are not certainly before the cause: all between the last pass and the first failure are suspect", () => {
  const choice = chooseRollback(
    facts({ candidates: [1, 2, 3, 4].map((one) => candidate(one)), checks: [check(2, true), check(4, false)] }),
    NEVER,
  );
  expect(choice).toMatchObject({
    kind: "back",
    chosen: 2,
    rejected: [
      { sequence: 4, kind: "known_bad", why: "its files fail test" },
      { sequence: 3, kind: "after_cause" },
      { sequence: 1, kind: "older" },
    ],
  });
});

test("the checkpoint that passed is dropped: older ones are before the cause, newer ones are not", () => {
  const some = { candidates: [candidate(1), candidate(3)], checks: [check(2, true), check(3, false)] };
  expect(chooseRollback(facts(some), NEVER)).toMatchObject({ kind: "back", chosen: 1 });
});

test("a better score of an unusable checkpoint is no reason to roll back", () => {
  const scores = [
    { entry: 11, sequence: 1, files: "t1", score: 90 },
    { entry: 21, sequence: 2, files: "t2", score: 70 },
  ];
  const damage = { kind: "damaged", problem: "its digest does not match" } as const;
  const candidates = [candidate(1, { damage }), candidate(2)];
  expect(chooseRollback(facts({ candidates, scores }), NEVER)).toMatchObject({ kind: "stay", chosen: 2 });
});

test("two regressions: before both", () => {
  const candidates = [1, 2, 3, 4].map((one) => candidate(one));
  const scores = [
    { entry: 11, sequence: 1, files: "t1", score: 90 },
    { entry: 31, sequence: 3, files: "t3", score: 70 },
  ];
  const choice = chooseRollback(facts({ candidates, scores, checks: [check(3, true), check(4, false)] }), NEVER);
  expect(choice).toMatchObject({ kind: "back", chosen: 1 });
  expect(choice.cause.why).toMatch(/test passed .*; The score fell/);
});

test("a run that ended for an external cause is rolled back to before its end, with the current files", () => {
  const some = facts({
    state: { kind: "failed", at: "t", reason: "the agent failed three times" },
    trouble: { kind: "outside", reason: "Overloaded" },
    candidates: [candidate(1), candidate(2), candidate(3, { ended: true, tree: "t2" })],
  });
  expect(chooseRollback(some, NEVER)).toMatchObject({
    kind: "back",
    chosen: 2,
    why: "it is the newest that the run can continue from, with the files as they are",
    rejected: [{ sequence: 3, kind: "ended" }, { sequence: 1 }],
  });
});

test("nothing failed, nothing saved, a run that is done", () => {
  expect(chooseRollback(facts({}), NEVER)).toMatchObject({ kind: "none", why: "Run r has no checkpoint yet" });
  const trouble = { kind: "none" } as const;
  const candidates = [candidate(1)];
  expect(chooseRollback(facts({ candidates, trouble }), NEVER)).toMatchObject({
    kind: "stay",
    cause: { kind: "none" },
  });
  expect(chooseRollback(facts({ candidates, state: { kind: "done", at: "t" } }), NEVER)).toMatchObject({
    kind: "stay",
    cause: { kind: "none", why: "Run r is done" },
  });
});

const TREES = ["a", "b", "c", "d"];
const someFacts = fc
  .record({
    trees: fc.array(fc.constantFrom(...TREES, null), { minLength: 1, maxLength: 9 }),
    odd: fc.array(
      fc.record({
        damaged: fc.boolean(),
        half: fc.boolean(),
        left: fc.boolean(),
        ended: fc.boolean(),
        removed: fc.nat(9),
      }),
      { minLength: 9, maxLength: 9 },
    ),
    judged: fc.array(fc.record({ at: fc.nat(8), name: fc.constantFrom("test", "review"), pass: fc.boolean() }), {
      maxLength: 8,
    }),
    scored: fc.array(fc.record({ at: fc.nat(8), score: fc.nat(3) }), { maxLength: 4 }),
    done: fc.array(fc.record({ at: fc.nat(100), unsafe: fc.boolean() }), { maxLength: 3 }),
    trouble: fc.constantFrom<RollbackFacts["trouble"]>(
      { kind: "none" },
      { kind: "outside", reason: "Overloaded" },
      { kind: "failed", reason: "it failed" },
    ),
    fatal: fc.boolean(),
  })
  .map((some): RollbackFacts => {
    const candidates = some.trees.map((tree, at) => {
      const odd = some.odd[at];
      // Most candidates are intact, because otherwise few would ever be chosen.
      const rare = at % 3 === 0;
      return candidate(at + 1, {
        tree,
        damage: odd?.damaged === true && rare ? { kind: "damaged", problem: "its digest does not match" } : null,
        half: odd?.half === true && rare ? ["edit"] : [],
        leftBehind: odd?.left === true && rare,
        ended: odd?.ended === true && at === some.trees.length - 1,
        changed: { added: 0, modified: 1, removed: odd?.removed ?? 0 },
      });
    });
    const at = (index: number) => candidates[index % candidates.length] ?? candidate(1);
    return facts({
      candidates,
      trouble: some.trouble,
      state: some.fatal ? { kind: "failed", at: "t", reason: "it failed" } : { kind: "active" },
      checks: some.judged
        .map((one) => ({ ...check(at(one.at).sequence, one.pass, filesKey(at(one.at))), name: one.name }))
        .toSorted((a, b) => a.entry - b.entry),
      scores: some.scored
        .map((one) => ({
          entry: at(one.at).entry + 1,
          sequence: at(one.at).sequence,
          files: filesKey(at(one.at)),
          score: one.score,
        }))
        .toSorted((a, b) => a.entry - b.entry),
      effects: some.done.map((one, index) => ({
        key: `k${index}`,
        kind: "push",
        target: "origin",
        entry: one.at,
        unsafe: one.unsafe ? "it cannot be undone" : null,
      })),
    });
  });

test("the choice is intact, before the cause, not known as bad, and not before an irreversible effect", () => {
  let chosenOnes = 0;
  fc.assert(
    fc.property(someFacts, fc.boolean(), (some, pastEffects) => {
      const choice = chooseRollback(some, { pastEffects });
      const cause = findCause(some);
      const one = some.candidates.find(({ sequence }) => sequence === choice.chosen);
      if (one === undefined) return;
      chosenOnes += 1;
      expect(one).toMatchObject({ damage: null, half: [], leftBehind: false, ended: false });
      if (cause.after !== null) expect(one.sequence).toBeLessThanOrEqual(cause.after);
      expect(cause.bad.has(filesKey(one))).toBe(false);
      const behind = some.effects.filter(({ unsafe, entry }) => unsafe !== null && entry > one.entry);
      if (!pastEffects) expect(behind).toEqual([]);
      if (choice.kind === "back") expect(choice.accepted).toEqual(behind);
    }),
    { numRuns: 2000 },
  );
  expect(chosenOnes).toBeGreaterThan(500);
});

test("every other checkpoint is rejected once, with a reason of the list", () => {
  fc.assert(
    fc.property(someFacts, (some) => {
      const choice = chooseRollback(some, NEVER);
      const named = choice.rejected.map(({ sequence }) => sequence);
      const expected = some.candidates.map(({ sequence }) => sequence).filter((one) => one !== choice.chosen);
      expect(named).toEqual(expected.toReversed());
      for (const { kind, why } of choice.rejected) {
        expect(REJECTIONS).toContain(kind);
        expect(why).not.toBe("");
      }
    }),
  );
});

test("the order in which checkpoints come changes nothing", () => {
  fc.assert(
    fc.property(someFacts, (some) => {
      const turned = { ...some, candidates: some.candidates.toReversed() };
      expect(chooseRollback(turned, NEVER)).toEqual(chooseRollback(some, NEVER));
    }),
  );
});

test("one more corrupt checkpoint, anywhere and with whatever files, never changes the choice", () => {
  fc.assert(
    fc.property(someFacts, fc.nat(9), fc.constantFrom(...TREES, "x", null), (some, at, tree) => {
      const damage = { kind: "damaged", problem: "its digest does not match" } as const;
      const corrupt = candidate(at + 0.5, { tree, damage });
      const more = { ...some, candidates: [...some.candidates, corrupt] };
      const [before, after] = [chooseRollback(some, NEVER), chooseRollback(more, NEVER)];
      expect(after.chosen).toBe(before.chosen);
      expect(after.cause).toEqual(before.cause);
      expect(after.rejected.filter(({ sequence }) => sequence !== corrupt.sequence)).toEqual(before.rejected);
    }),
    { numRuns: 1000 },
  );
});

test("allowing a rollback past effects never gives an older one", () => {
  fc.assert(
    fc.property(someFacts, (some) => {
      const [careful, bold] = [chooseRollback(some, NEVER), chooseRollback(some, { pastEffects: true })];
      if (careful.chosen !== null) expect(bold.chosen).toBe(careful.chosen);
    }),
  );
});

test("an external cause never changes files: an unfinished run stays where it can continue", () => {
  fc.assert(
    fc.property(someFacts, (some) => {
      const outside = {
        ...some,
        state: { kind: "active" },
        trouble: { kind: "outside", reason: "Overloaded" },
      } as const;
      const sound = {
        ...outside,
        candidates: some.candidates.map((one) => ({
          ...one,
          damage: null,
          half: [],
          leftBehind: false,
          ended: false,
          tree: one.tree ?? "a",
        })),
        effects: [],
      };
      expect(chooseRollback(sound, NEVER)).toMatchObject({ kind: "stay", chosen: some.candidates.length });
    }),
  );
});
