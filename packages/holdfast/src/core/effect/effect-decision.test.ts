import fc from "fast-check";
import { expect, test } from "vitest";
import { checkIntent, decideEffect, effectKey } from "./effect-decision.ts";
import type { Lookup } from "./effect-decision.ts";
import type { Effect, EffectState } from "./effect.ts";

const states: readonly EffectState[] = [
  { kind: "intended", at: "t" },
  { kind: "unknown", at: "t", reason: "x" },
  { kind: "failed", at: "t", reason: "x" },
  { kind: "done", at: "t", adopted: false, receipt: { number: 7 } },
];
const lookups: readonly Lookup[] = [
  { kind: "present", receipt: { number: 8 } },
  { kind: "absent" },
  { kind: "unknown", reason: "timed out" },
];

test("the whole table: present adopts, absent acts, unknown asks, done is never done again", () => {
  const table = states.flatMap((state) =>
    lookups.map((lookup) => `${state.kind} + ${lookup.kind} = ${decideEffect({ state, lookup }).action}`),
  );
  expect(table).toEqual([
    "intended + present = adopt",
    "intended + absent = act",
    "intended + unknown = ask",
    "unknown + present = adopt",
    "unknown + absent = act",
    "unknown + unknown = ask",
    "failed + present = adopt",
    "failed + absent = act",
    "failed + unknown = ask",
    "done + present = adopt",
    "done + absent = adopt",
    "done + unknown = adopt",
  ]);
});

test("a pull request that exists is adopted with its own receipt (agentize ran the whole agent again)", () => {
  const [state, lookup] = [states[0], lookups[0]];
  if (state === undefined || lookup === undefined) throw new Error("no sample");
  expect(decideEffect({ state, lookup })).toEqual({ action: "adopt", receipt: { number: 8 } });
});

test("a key cannot change its meaning while its outcome is open", () => {
  const intent = { key: "k", kind: "comment", target: "issue 1", payload: "a" };
  const existing = (state: EffectState): Effect => ({ ...intent, run: "r", state });
  expect(() => checkIntent(undefined, intent)).not.toThrow();
  for (const state of states) {
    expect(() => checkIntent(existing(state), intent)).not.toThrow();
    const other = (): void => checkIntent(existing(state), { ...intent, payload: "b" });
    if (state.kind === "failed") expect(other).not.toThrow();
    else expect(other).toThrow(expect.objectContaining({ code: "CONFLICT", retry: "ask" }));
    expect(() => checkIntent(existing(state), { ...intent, target: "issue 2" })).toThrow(/issue 2/);
    expect(() => checkIntent(existing(state), { ...intent, kind: "label" })).toThrow(/label/);
  }
});

const name = fc.stringMatching(/^[a-z0-9]([a-z0-9._-]{0,5}[a-z0-9])?$/);
const run = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?$/);
const parts = fc.record({ run, stage: name, purpose: name });

test("two keys are equal only when run, stage and purpose are", () => {
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      expect(effectKey(a)).toBe(effectKey({ ...a }));
      expect(effectKey(a) === effectKey(b)).toBe(a.run === b.run && a.stage === b.stage && a.purpose === b.purpose);
    }),
  );
});

test.each(["", "a/b", "Fix the bug!", "a b", "é", "-a", "a\n", "x".repeat(65)])("%j is no purpose", (purpose) => {
  expect(() => effectKey({ run: "r", stage: "pr", purpose })).toThrow(expect.objectContaining({ code: "USAGE" }));
  expect(() => effectKey({ run: "r", stage: purpose, purpose: "push" })).toThrow(/cannot be part/);
});
