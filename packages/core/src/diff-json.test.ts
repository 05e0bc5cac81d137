import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  TIMEOUT,
  applyEdits,
  arbitraryEdits,
  arbitraryJson,
  cloneJson,
  runs,
} from "@holdfast/test-support/core/json-sample";
import type { Json } from "./json.ts";
import { canonicalJson, capture } from "./values.ts";
import { type JsonChange, diffJson } from "./diff-json.ts";

/** Applies the changes from last to first, so that elements taken from an array's end go in the right order. */
function patched(from: Json, changes: readonly JsonChange[]): Json {
  const holder: { value: Json } = { value: cloneJson(from) };
  for (const change of changes.toReversed()) {
    const steps = change.path
      .split("/")
      .slice(1)
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = steps.pop();
    let parent: unknown = last === undefined ? holder : holder.value;
    for (const step of steps) parent = Object.getOwnPropertyDescriptor(parent, step)?.value;
    if (typeof parent !== "object" || parent === null) throw new Error(`no such place: ${change.path}`);
    const key = last ?? "value";
    if (change.to !== undefined) {
      const value = cloneJson(change.to);
      Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
    } else if (Array.isArray(parent)) {
      parent.length = Number(key);
    } else {
      Reflect.deleteProperty(parent, key);
    }
  }
  return holder.value;
}

describe("diffJson", () => {
  test("reports exactly the changes that turn one value into the other", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), arbitraryEdits(), (value, edits) => {
        const from = capture(value);
        applyEdits(value, edits);
        const to = capture(value, from);
        const { changes, truncated } = diffJson({ from, to, limit: 100_000 });
        expect(truncated).toBe(false);
        expect(canonicalJson(patched(from, changes))).toBe(canonicalJson(to));
        expect(changes.length === 0).toBe(canonicalJson(from) === canonicalJson(to));
        for (const change of changes) expect(change.from).not.toEqual(change.to);
      }),
      runs(120),
    );
  });

  test("has pointers, old and new values", () => {
    const { changes } = diffJson({
      from: { a: [1, { b: 2 }], "x/y": 1, gone: true, same: {} },
      to: { a: [1, { b: 3 }, "new"], "x/y": null, __proto__: 1, same: {} },
    });
    expect(changes).toEqual([
      { path: "/a/1/b", from: 2, to: 3 },
      { path: "/a/2", to: "new" },
      { path: "/gone", from: true },
      { path: "/x~1y", from: 1, to: null },
    ]);
    expect(diffJson({ from: {}, to: JSON.parse('{"__proto__":1}') }).changes).toEqual([{ path: "/__proto__", to: 1 }]);
    expect(diffJson({ from: 1, to: "1" }).changes).toEqual([{ path: "", from: 1, to: "1" }]);
  });

  test("stops at the limit and reports that", () => {
    const row = (n: number): Json => Array.from({ length: 50 }, () => n);
    expect(diffJson({ from: row(1), to: row(2), limit: 50 })).toMatchObject({ truncated: false });
    const cut = diffJson({ from: row(1), to: row(2), limit: 49 });
    expect(cut).toMatchObject({ truncated: true });
    expect(cut.changes).toHaveLength(49);
  });
});
