import type { Json, JsonObject } from "../json.ts";

/**
 * Keys go in canonical order, so that the engine's own JSON.stringify is canonical too. `regular` is false where the
 * engine does not keep that order (it moves integer-like keys to the front).
 */
export function buildObject(
  keys: readonly string[],
  values: readonly Json[],
): { readonly object: JsonObject; readonly regular: boolean } {
  const object: Record<string, Json> = {};
  let regular = true;
  let index = 0;
  if (isAscending(keys)) {
    for (const key of keys) {
      setOwn(object, key, values[index] ?? null);
      if (regular && startsWithDigit(key)) regular = false;
      index += 1;
    }
  } else {
    for (const at of ascendingOrder(keys)) {
      const key = keys[at] ?? "";
      setOwn(object, key, values[at] ?? null);
      if (regular && startsWithDigit(key)) regular = false;
    }
  }
  return { object, regular: regular || isAscending(Object.keys(object)) };
}

/** Own data even for `__proto__`, where a plain assignment would set the prototype. */
export function setOwn(object: Record<string, Json>, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    object[key] = value;
  }
}

/** JavaScript compares strings by UTF-16 units, which is the order RFC 8785 asks for. */
export function isAscending(keys: readonly string[]): boolean {
  let last: string | undefined;
  for (const key of keys) {
    if (last !== undefined && last >= key) return false;
    last = key;
  }
  return true;
}

function ascendingOrder(keys: readonly string[]): readonly number[] {
  const order: number[] = [];
  if (keys.length > FEW) {
    for (let i = 0; i < keys.length; i += 1) order.push(i);
    return order.sort((a, b) => ((keys[a] ?? "") < (keys[b] ?? "") ? -1 : 1));
  }
  // By insertion: for a handful of keys many times as fast as a call of the engine's sort.
  for (let i = 0; i < keys.length; i += 1) {
    const key = keys[i] ?? "";
    let at = i;
    for (; at > 0 && (keys[order[at - 1] ?? 0] ?? "") > key; at -= 1) order[at] = order[at - 1] ?? 0;
    order[at] = i;
  }
  return order;
}

const FEW = 12;

export function startsWithDigit(key: string): boolean {
  const code = key.charCodeAt(0);
  return code >= 48 && code <= 57;
}
