import type { Json, JsonObject } from "../json.ts";
import { setOwn, startsWithDigit } from "./build-object.ts";
import { baseOf, hasIrregular, heightBound, linkBase, markIrregular, rememberCaptured } from "./captured.ts";
import { factsOf, Given } from "./facts.ts";
import type { Rows } from "./rows.ts";

/** What is true of all values in a row; may say too much, never too little. */
export interface RowBounds {
  /** Of the tallest. */
  readonly height: number;
  /** A key or a value is irregular. */
  readonly irregular: boolean;
}

export const NO_BOUNDS: RowBounds = { height: 0, irregular: false };

export function boundsWith(bounds: RowBounds, key: string, value: Json): RowBounds {
  const height = typeof value === "object" && value !== null ? heightBound(value) : 0;
  const irregular = startsWithDigit(key) || hasIrregular([value]);
  if (height <= bounds.height && (!irregular || bounds.irregular)) return bounds;
  return { height: Math.max(height, bounds.height), irregular: irregular || bounds.irregular };
}

/**
 * A captured object made of a row. To everybody it is a plain frozen object, which comes into being when somebody first looks into
 * it; encode takes the row, and so never looks. `before` is the one that it follows: a hint for encode, no more.
 */
export function rowObject(rows: Rows, bounds: RowBounds, before: JsonObject | undefined): JsonObject {
  const target: Record<string, Json> = {};
  const gate = { open: true };
  const value = new Proxy(target, lookInto(rows, gate));
  some = true;
  void new Branded(value, rows);
  rememberCaptured(value, bounds.height + 1);
  if (bounds.irregular) markIrregular(value);
  if (before !== undefined) linkBase(value, encodedOf(before), 0);
  gate.open = false;
  return value;
}

/** Of an object that rowObject made. */
export function rowsOf(value: object): Rows | undefined {
  return some ? Branded.rowsOf(value) : undefined;
}

/** Most processes have none, and then nothing is asked. */
let some = false;

/** One that nobody saved says nothing that the one before it does not. */
function encodedOf(before: JsonObject): JsonObject {
  if (factsOf(before)?.encoding !== undefined) return before;
  const earlier = baseOf(before)?.value;
  // A row object follows row objects only.
  return earlier === undefined ? before : (earlier as JsonObject);
}

/** The field lies on the proxy itself, which no trap sees. */
class Branded extends Given {
  readonly #rows: Rows;

  constructor(value: object, rows: Rows) {
    super(value);
    this.#rows = rows;
  }

  static rowsOf(value: object): Rows | undefined {
    return #rows in value ? value.#rows : undefined;
  }
}

/** Every way to look fills the object first, and from then on all is as the frozen object has it. */
function lookInto(rows: Rows, gate: { readonly open: boolean }): ProxyHandler<Record<string, Json>> {
  let filled = false;
  const fill = (target: Record<string, Json>): void => {
    if (filled) return;
    filled = true;
    for (const [key, value] of rows.entries()) setOwn(target, key, value);
    Object.freeze(target);
  };
  return {
    get(target, key) {
      fill(target);
      return Reflect.get(target, key);
    },
    has(target, key) {
      fill(target);
      return Reflect.has(target, key);
    },
    ownKeys(target) {
      fill(target);
      return Reflect.ownKeys(target);
    },
    getOwnPropertyDescriptor(target, key) {
      fill(target);
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
    isExtensible(target) {
      // While facts are put on it, it is asked whether that may be done.
      if (!gate.open) fill(target);
      return Reflect.isExtensible(target);
    },
    preventExtensions(target) {
      fill(target);
      return true;
    },
    set: () => false,
    deleteProperty(target, key) {
      fill(target);
      return Reflect.deleteProperty(target, key);
    },
    defineProperty(target, key, descriptor) {
      fill(target);
      return Reflect.defineProperty(target, key, descriptor);
    },
    setPrototypeOf: (target, prototype) => prototype === Reflect.getPrototypeOf(target),
  };
}
