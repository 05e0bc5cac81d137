import * as fc from "fast-check";
import type { Json } from "../../json.ts";
import { cloneJson, element } from "./arbitrary-json.ts";

/** A change to some container of a live value; `place` picks which one, whatever the value looks like. */
export type Edit =
  | { readonly kind: "set"; readonly place: number; readonly at: number; readonly value: Json }
  | { readonly kind: "add"; readonly place: number; readonly key: string; readonly value: Json }
  | { readonly kind: "remove"; readonly place: number; readonly at: number }
  | {
      readonly kind: "splice";
      readonly place: number;
      readonly at: number;
      readonly drop: number;
      readonly value: Json;
    };

export function arbitraryEdits(): fc.Arbitrary<readonly Edit[]> {
  const place = fc.nat(60);
  const at = fc.nat(700);
  const value = element;
  return fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant("set" as const), place, at, value }),
      fc.record({
        kind: fc.constant("add" as const),
        place,
        key: fc.constantFrom("new", "7", "__proto__", "z"),
        value,
      }),
      fc.record({ kind: fc.constant("remove" as const), place, at }),
      fc.record({ kind: fc.constant("splice" as const), place, at, drop: fc.nat(3), value }),
    ),
    { maxLength: 5 },
  );
}

/** In place: the value must be fresh and unfrozen. */
export function applyEdits(live: Json, edits: readonly Edit[]): void {
  for (const edit of edits) {
    const containers = containersOf(live);
    const container = containers[edit.place % Math.max(containers.length, 1)];
    if (container !== undefined) applyEdit(container, edit);
  }
}

function applyEdit(container: object, edit: Edit): void {
  const keys = Object.keys(container);
  switch (edit.kind) {
    case "set":
      define(container, keys[edit.at % Math.max(keys.length, 1)], edit.value);
      return;
    case "add":
      if (Array.isArray(container)) container.push(cloneJson(edit.value));
      else define(container, edit.key, edit.value);
      return;
    case "remove":
      if (Array.isArray(container)) container.pop();
      else if (keys.length > 0) Reflect.deleteProperty(container, keys[edit.at % keys.length] ?? "");
      return;
    case "splice":
      if (Array.isArray(container)) {
        container.splice(edit.at % (container.length + 1), edit.drop, cloneJson(edit.value));
      }
  }
}

function define(container: object, key: string | undefined, value: Json): void {
  if (key === undefined) return;
  Object.defineProperty(container, key, {
    value: cloneJson(value),
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

/** The first hundred, each once: a generated value may hold the same object in many places. */
function containersOf(value: Json): readonly object[] {
  const found = new Set<object>();
  const walk = (child: unknown): void => {
    if (typeof child !== "object" || child === null || found.has(child) || found.size > 100) return;
    found.add(child);
    for (const inner of Object.values(child)) walk(inner);
  };
  walk(value);
  return [...found];
}
