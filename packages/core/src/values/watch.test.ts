import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TIMEOUT, applyEdits, arbitraryEdits, element, runs } from "@holdfast/test-support/core/json-sample";
import type { Json } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";

interface Message {
  id: number;
  role: string;
  content: { type: string; text: string; tags: string[] }[];
}

function message(id: number): Message {
  return { id, role: "user", content: [{ type: "text", text: `message ${id} `.repeat(30), tags: ["a", "b"] }] };
}

function messages(count: number): Message[] {
  return Array.from({ length: count }, (_, id) => message(id));
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}

/** A proxy over the value and all in it, which counts what is read of it. */
function counted<T extends object>(value: T, reads: { count: number }): T {
  return new Proxy(value, {
    get(target, key) {
      reads.count += 1;
      const found: unknown = Reflect.get(target, key);
      return found;
    },
  });
}

describe("the same live objects, saved again and again", () => {
  test("whatever is changed in them is seen, however deep and however often", TIMEOUT, () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 90 }), fc.array(arbitraryEdits(), { maxLength: 6 }), (count, rounds) => {
        const live: Json = JSON.parse(JSON.stringify({ messages: messages(count), step: 0 }));
        let previous = capture(live);
        for (const edits of rounds) {
          applyEdits(live, edits);
          const next = capture(live, previous);
          expect(canonicalJson(next)).toBe(canonicalJson(live));
          expect(capture(live, next)).toBe(next);
          previous = next;
        }
      }),
      runs(150),
    );
  });

  test("a change of any one message is seen, and the others are shared", () => {
    const live = messages(70);
    let previous = capture(live) as readonly Json[];
    for (const [at, { content }] of live.entries()) {
      content[0]?.tags.push("changed");
      const next = capture(live, previous) as readonly Json[];
      expect(next.map((part, i) => (part === previous[i] ? "same" : i)).filter((part) => part !== "same")).toEqual([
        at,
      ]);
      expect(next[at]).toEqual(live[at]);
      previous = next;
    }
  });

  test.each<readonly [string, (live: Message[]) => void]>([
    ["two exchanged", (live) => live.splice(10, 2, ...live.slice(10, 12).toReversed())],
    ["all turned round", (live) => live.splice(0, 70, ...live.toReversed())],
    ["the first moved to the end", (live) => live.push(...live.splice(0, 1))],
    ["one twice", (live) => live.push(...live.slice(3, 4))],
    ["an equal one in the place of one", (live) => live.splice(5, 1, message(5))],
    ["keys in another order", (live) => live.splice(5, 1, { content: message(5).content, role: "user", id: 5 })],
    ["half of them gone", (live) => live.splice(0, 35)],
  ])("%s", (_name, change) => {
    const live = messages(70);
    const first = capture({ live });
    change(live);
    const second = capture({ live }, first);
    expect(second).toEqual({ live });
    live[7]?.content.push({ type: "text", text: "more", tags: [] });
    expect(capture({ live }, second)).toEqual({ live });
  });

  test("parts that changed places under their keys are not mistaken for each other", () => {
    const [a, b] = [message(1), message(2)];
    const filler = messages(70);
    const first = capture({ filler, a, b });
    const second = capture({ filler, a: b, b: a }, first);
    expect(second).toEqual({ filler, a: message(2), b: message(1) });
    expect(capture({ b: a, filler, a: b }, second)).toBe(second);
  });

  test("what JSON cannot carry is refused also deep in an object that was saved before", () => {
    const live = { messages: messages(40) };
    const previous = capture(live);
    Reflect.set(live.messages[33]?.content[0]?.tags ?? [], 1, () => {});
    expect(() => capture(live, previous)).toThrow(/\/messages\/33\/content\/0\/tags\/1/u);
  });

  test("the random value a row grew by is seen", TIMEOUT, () => {
    fc.assert(
      fc.property(fc.array(element, { maxLength: 8 }), (added) => {
        const live: Json[] = JSON.parse(JSON.stringify(messages(50)));
        const previous = capture(live);
        live.push(...added);
        expect(canonicalJson(capture(live, previous))).toBe(canonicalJson(live));
      }),
      runs(60),
    );
  });
});

describe("frozen values", () => {
  test("frozen through and through, one is read once and never again", () => {
    const reads = { count: 0 };
    const live = messages(50).map((plain) => counted(deepFreeze(plain), reads));
    let previous = capture({ live, n: 0 });
    reads.count = 0;
    for (let n = 1; n < 5; n += 1) {
      const next = capture({ live: [...live], n }, previous) as { readonly live: Json };
      expect(next.live).toBe((previous as { readonly live: Json }).live);
      previous = next;
    }
    expect(reads.count).toBe(0);
  });

  test("a frozen shell does not hide a change inside", () => {
    const inner = { text: "before" };
    const live = [...messages(20), Object.freeze({ id: 1, inner })];
    const previous = capture(live);
    inner.text = "after";
    expect(capture(live, previous)).toEqual(live);
    expect((capture(live, previous) as readonly { inner?: unknown }[]).at(-1)?.inner).toEqual({ text: "after" });
  });

  test("an accessor on a frozen object is asked again", () => {
    let answer = 1;
    const live = Object.freeze(Object.defineProperty({ b: 2 }, "a", { get: () => answer, enumerable: true }));
    const root = { live };
    let previous = capture({ live: { a: 1, b: 2 } });
    for (let i = 0; i < 4; i += 1) {
      const next = capture(root, previous);
      expect(next).toBe(previous);
      previous = next;
    }
    answer = 5;
    expect(() => capture(root, previous)).toThrow(/\/live\/a/u);
  });
});

test("a proxy that reads otherwise than it was captured is captured again", () => {
  const live = [new Proxy({ n: 0 }, { get: () => 7 })];
  const first = capture(live);
  expect(first).toEqual([{ n: 0 }]);
  expect(capture(live, first)).toEqual([{ n: 7 }]);
});
