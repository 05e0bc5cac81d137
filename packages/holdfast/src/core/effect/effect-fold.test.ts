import fc from "fast-check";
import { expect, test } from "vitest";
import type { Effect } from "./effect.ts";
import { foldEffects, stepEffect } from "./effect-fold.ts";
import type { EntryKind } from "../journal/journal.ts";
import type { JsonObject } from "../json.ts";

type Line = readonly [EntryKind, JsonObject];
const intended = (key: string, payload = "p"): Line => [
  "effect.intended",
  { key, kind: "git.push", target: "origin", payload, detail: {} },
];
const unknown = (key: string): Line => ["effect.unknown", { key, reason: "interrupted" }];
const done = (key: string, receipt = 1): Line => ["effect.settled", { key, outcome: "done", adopted: false, receipt }];
const failed = (key: string): Line => ["effect.settled", { key, outcome: "failed", reason: "refused" }];

function journal(lines: readonly Line[]) {
  return lines.map(([kind, body], index) => ({ run: "r", entry: index + 1, kind, at: `t${index + 1}`, body }));
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

test("what failed may be tried again, what is done may not", () => {
  expect(stateAfter(intended("k"), failed("k"), intended("k", "q"))).toMatchObject({ kind: "intended" });
  expect(
    stateAfter(intended("k"), done("k"), intended("k", "q"), unknown("k"), failed("k"), done("k", 2)),
  ).toMatchObject({
    kind: "done",
    at: "t2",
    receipt: 1,
  });
});

test("an outcome without an intent is corrupt, and so is a body that cannot be read", () => {
  expect(() => foldEffects(journal([done("k")]))).toThrow(expect.objectContaining({ code: "STORE_CORRUPT" }));
  expect(() => foldEffects(journal([intended("a"), unknown("b")]))).toThrow(/entry 2 .* "b", which was never intended/);
  expect(() => foldEffects(journal([["effect.intended", { key: "k" }]]))).toThrow(/\/kind/);
  expect(() => foldEffects(journal([intended("k"), ["effect.settled", { key: "k", outcome: "maybe" }]]))).toThrow(
    /\/outcome/,
  );
});

const keys = ["a", "b", "__proto__"];
const someLines = fc
  .array(
    fc
      .tuple(fc.constantFrom(intended, unknown, done, failed), fc.constantFrom(...keys))
      .map(([make, key]) => make(key)),
  )
  .map((lines) => [...keys.map((key) => intended(key)), ...lines, ["note", { key: "a" }] satisfies Line]);

test("folding in two parts is folding in one; other effects are left alone; done is final", () => {
  fc.assert(
    fc.property(someLines, fc.nat(), (lines, cut) => {
      const entries = journal(lines);
      const whole = foldEffects(entries);
      const at = keys.length + (cut % (entries.length - keys.length + 1));
      const ledger = new Map<string, Effect>(foldEffects(entries.slice(0, at)).map((one) => [one.key, one]));
      for (const entry of entries.slice(at)) {
        const change = stepEffect((key) => ledger.get(key), entry);
        if (change === null) continue;
        expect(ledger.get(change.key)?.state.kind).not.toBe("done");
        expect(change.key).toBe(entry.body["key"]);
        ledger.set(change.key, change);
      }
      expect([...ledger.values()]).toEqual(whole);
      expect(whole.map((one) => one.key)).toEqual(keys);
    }),
  );
});
