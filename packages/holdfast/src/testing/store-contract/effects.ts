import assert from "node:assert/strict";
import { assertFrozen } from "./harness.ts";
import { refuses } from "../refuses.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun } from "./sample.ts";
import type { NewEntry } from "../../core/journal/journal.ts";

const payload = "a".repeat(64);

function intended(key: string, digest = payload): NewEntry {
  return { kind: "effect.intended", body: { key, kind: "push", target: "origin", payload: digest, detail: {} } };
}

function done(key: string): NewEntry {
  return { kind: "effect.settled", body: { key, outcome: "done", adopted: false, receipt: { url: "u" } } };
}

export const effectCases: readonly StoreCase[] = [
  {
    name: "the ledger is the fold of the effect entries",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      clock.set("2026-03-01T10:00:00.000Z");
      await store.commit({ lease, entries: [intended("push"), intended("label")] });
      clock.set("2026-03-01T11:00:00.000Z");
      await store.commit({
        lease,
        entries: [done("push"), { kind: "effect.unknown", body: { key: "label", reason: "cut off" } }],
      });
      const effects = await (await open()).listEffects("sample");
      assert.deepEqual(
        effects.map(({ key, state }) => [key, { ...state }]),
        [
          ["label", { kind: "unknown", at: "2026-03-01T11:00:00.000Z", reason: "cut off" }],
          ["push", { kind: "done", at: "2026-03-01T11:00:00.000Z", adopted: false, receipt: { url: "u" } }],
        ],
      );
      assert.deepEqual(
        [effects[1]?.run, effects[1]?.kind, effects[1]?.target, effects[1]?.payload],
        ["sample", "push", "origin", payload],
      );
      assertFrozen(effects);
      await store.commit({
        lease,
        entries: [
          intended("label"),
          { kind: "effect.settled", body: { key: "label", outcome: "failed", reason: "refused" } },
        ],
      });
      assert.deepEqual((await store.listEffects("sample"))[0]?.state, {
        kind: "failed",
        at: "2026-03-01T11:00:00.000Z",
        reason: "refused",
      });
    },
  },
  {
    name: "one key stands for one payload, an outcome needs an intent, and done stays done",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await store.commit({ lease, entries: [intended("push"), done("push")] });
      const before = await store.listEffects("sample");
      const bad: readonly (readonly NewEntry[])[] = [
        [intended("push", "b".repeat(64))],
        [intended("new"), intended("new", "b".repeat(64))],
        [done("never intended")],
        [{ kind: "effect.settled", body: { key: "push", outcome: "failed", reason: "r" } }],
        [{ kind: "effect.unknown", body: { key: "push", reason: "r" } }],
        [{ kind: "effect.intended", body: { key: "" } }],
      ];
      for (const entries of bad)
        await refuses("CONFLICT", () => store.commit({ lease, entries: [{ kind: "note", body: {} }, ...entries] }));
      assert.equal((await store.getRun("sample"))?.entries, 4);
      await store.commit({ lease, entries: [intended("push"), done("push")] });
      assert.deepEqual(await store.listEffects("sample"), before);
    },
  },
  {
    name: "what failed may be tried again with another payload; what may have happened may not",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const other = "b".repeat(64);
      const failed: NewEntry = { kind: "effect.settled", body: { key: "push", outcome: "failed", reason: "refused" } };
      const unknown: NewEntry = { kind: "effect.unknown", body: { key: "push", reason: "cut off" } };
      await store.commit({ lease, entries: [intended("push")] });
      await refuses("CONFLICT", () => store.commit({ lease, entries: [intended("push", other)] }));
      await store.commit({ lease, entries: [unknown] });
      await refuses("CONFLICT", () => store.commit({ lease, entries: [intended("push", other)] }));
      await store.commit({ lease, entries: [failed] });
      const elsewhere = { ...intended("push", other).body, target: "upstream" };
      await refuses("CONFLICT", () => store.commit({ lease, entries: [{ kind: "effect.intended", body: elsewhere }] }));
      await store.commit({ lease, entries: [intended("push", other)] });
      const [effect] = await store.listEffects("sample");
      assert.deepEqual([effect?.payload, effect?.state.kind], [other, "intended"]);
      for await (const event of store.verify()) assert.notEqual(event.kind, "problem");
    },
  },
  {
    name: "runs have ledgers of their own",
    async run({ open }) {
      const store = await open();
      const [a, b] = [await leasedRun(store, "a"), await leasedRun(store, "b")];
      await Promise.all([
        store.commit({ lease: a, entries: [intended("k")] }),
        store.commit({ lease: b, entries: [intended("k", "b".repeat(64))] }),
      ]);
      assert.equal((await store.listEffects("a"))[0]?.payload, payload);
      assert.equal((await store.listEffects("b"))[0]?.payload, "b".repeat(64));
    },
  },
];
