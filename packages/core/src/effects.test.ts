import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Effect,
  type EffectState,
  type Lookup,
  type PlacedEffect,
  checkIntent,
  decideEffect,
  effectKey,
  placeEffect,
  stepEffect,
} from "./effects.ts";
import type { EntryKind } from "./journal.ts";
import type { JsonObject } from "./json.ts";

describe("effect decision", () => {
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

  test.each(["", "a/b", "Fix the bug!", "a b", "é", "-a", "a\n", "x".repeat(65)])("%j is not a purpose", (purpose) => {
    expect(() => effectKey({ run: "r", stage: "pr", purpose })).toThrow(expect.objectContaining({ code: "USAGE" }));
    expect(() => effectKey({ run: "r", stage: purpose, purpose: "push" })).toThrow(/cannot be part/);
  });
});

describe("effect fold", () => {
  type Line = readonly [EntryKind, JsonObject];
  const intended = (key: string, payload = "p"): Line => [
    "effect.intended",
    { key, kind: "git.push", target: "origin", payload, detail: {} },
  ];
  const unknown = (key: string): Line => ["effect.unknown", { key, reason: "interrupted" }];
  const done = (key: string, receipt = 1): Line => [
    "effect.settled",
    { key, outcome: "done", adopted: false, receipt },
  ];
  const failed = (key: string): Line => ["effect.settled", { key, outcome: "failed", reason: "refused" }];

  function journal(lines: readonly Line[]) {
    return lines.map(([kind, body], index) => ({ run: "r", entry: index + 1, kind, at: `t${index + 1}`, body }));
  }

  function foldEffects(entries: ReturnType<typeof journal>): readonly Effect[] {
    const effects = new Map<string, Effect>();
    for (const entry of entries) {
      const change = stepEffect((key) => effects.get(key), entry);
      if (change !== null) effects.set(change.key, change);
    }
    return [...effects.values()];
  }

  const stateAfter = (...lines: readonly Line[]) => foldEffects(journal(lines))[0]?.state;

  test("intent, unknown, settled", () => {
    expect(stateAfter(intended("k"))).toEqual({ kind: "intended", at: "t1" });
    expect(stateAfter(intended("k"), unknown("k"))).toEqual({ kind: "unknown", at: "t2", reason: "interrupted" });
    expect(stateAfter(intended("k"), unknown("k"), done("k"))).toEqual({
      kind: "done",
      at: "t3",
      adopted: false,
      receipt: 1,
    });
    expect(stateAfter(intended("k"), failed("k"))).toEqual({ kind: "failed", at: "t2", reason: "refused" });
  });

  test("a failed effect may be tried again, a done one may not", () => {
    expect(stateAfter(intended("k"), failed("k"), intended("k", "q"))).toMatchObject({ kind: "intended" });
    expect(
      stateAfter(intended("k"), done("k"), intended("k", "q"), unknown("k"), failed("k"), done("k", 2)),
    ).toMatchObject({
      kind: "done",
      at: "t2",
      receipt: 1,
    });
  });

  const undoing = (key: string): Line => ["effect.undoing", { key }];
  const undone = (key: string): Line => ["effect.undone", { key, outcome: "undone", adopted: false, receipt: 2 }];
  const kept = (key: string): Line => ["effect.undone", { key, outcome: "kept", reason: "merged" }];

  test("a done effect can be undone, and an undo that the target refuses leaves it done", () => {
    const before = [intended("k"), done("k")];
    expect(stateAfter(...before, undoing("k"))).toEqual({ kind: "undoing", at: "t3", adopted: false, receipt: 1 });
    expect(stateAfter(...before, undoing("k"), kept("k"))).toMatchObject({ kind: "done", receipt: 1 });
    const after = { kind: "undone", at: "t4", adopted: false, receipt: 1, undo: 2 };
    expect(stateAfter(...before, undoing("k"), undone("k"))).toEqual(after);
    const late = [intended("k", "q"), unknown("k"), failed("k"), done("k", 3), undoing("k"), kept("k")];
    expect(stateAfter(...before, undoing("k"), undone("k"), ...late)).toEqual(after);
    expect(stateAfter(intended("k"), undoing("k"), undone("k"))).toMatchObject({ kind: "intended" });
    expect(stateAfter(...before, undone("k"))).toMatchObject({ kind: "done" });
    expect(() => foldEffects(journal([undoing("k")]))).toThrow(expect.objectContaining({ code: "STORE_CORRUPT" }));
  });

  test("an effect has the entry that put it in its state, and a refused undo moves it nowhere", () => {
    const entryAfter = (...lines: readonly Line[]): number | undefined => {
      const effects = new Map<string, PlacedEffect>();
      for (const entry of journal(lines)) placeEffect(effects, entry);
      return effects.get("k")?.entry;
    };
    expect(entryAfter(intended("k"), unknown("k"))).toBe(2);
    const before = [intended("k"), done("k")];
    expect(entryAfter(...before, undoing("k"))).toBe(2);
    expect(entryAfter(...before, undoing("k"), kept("k"))).toBe(2);
    expect(entryAfter(...before, undoing("k"), undone("k"))).toBe(4);
  });

  test("an outcome without an intent is corrupt, and so is an unreadable body", () => {
    expect(() => foldEffects(journal([done("k")]))).toThrow(expect.objectContaining({ code: "STORE_CORRUPT" }));
    expect(() => foldEffects(journal([intended("a"), unknown("b")]))).toThrow(
      /entry 2 .* "b", which was never intended/,
    );
    expect(() => foldEffects(journal([["effect.intended", { key: "k" }]]))).toThrow(/\/kind/);
    expect(() => foldEffects(journal([intended("k"), ["effect.settled", { key: "k", outcome: "maybe" }]]))).toThrow(
      /\/outcome/,
    );
  });

  const keys = ["a", "b", "__proto__"];
  const someLines = fc
    .array(
      fc
        .tuple(fc.constantFrom(intended, unknown, done, failed, undoing, undone, kept), fc.constantFrom(...keys))
        .map(([make, key]) => make(key)),
    )
    .map((lines) => [...keys.map((key) => intended(key)), ...lines, ["note", { key: "a" }] satisfies Line]);

  test("folding in two parts is folding in one; other effects are left alone; done changes only by an undo", () => {
    fc.assert(
      fc.property(someLines, fc.nat(), (lines, cut) => {
        const entries = journal(lines);
        const whole = foldEffects(entries);
        const at = keys.length + (cut % (entries.length - keys.length + 1));
        const ledger = new Map<string, Effect>(foldEffects(entries.slice(0, at)).map((one) => [one.key, one]));
        for (const entry of entries.slice(at)) {
          const change = stepEffect((key) => ledger.get(key), entry);
          if (change === null) continue;
          const before = ledger.get(change.key)?.state.kind;
          expect(before).not.toBe("undone");
          if (before === "done") expect(entry.kind).toBe("effect.undoing");
          if (before === "undoing") expect(entry.kind).toBe("effect.undone");
          expect(change.key).toBe(entry.body["key"]);
          ledger.set(change.key, change);
        }
        expect([...ledger.values()]).toEqual(whole);
        expect(whole.map((one) => one.key)).toEqual(keys);
      }),
    );
  });
});
