import type { Json } from "../json.ts";
import { isAscending, startsWithDigit } from "./build-object.ts";
import { markIrregular } from "./captured.ts";
import { corrupt } from "./corrupt.ts";
import { MAX_DEPTH } from "./limits.ts";

/** JSON text from disk as a deeply frozen value that has all that capture promises. */
export function parseFrozen(text: string): { readonly value: Json; readonly height: number } {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw corrupt("its JSON does not parse", error);
  }
  return { value, height: freezeJson(value, 0).height };
}

interface Frozen {
  readonly height: number;
  readonly regular: boolean;
}

const SCALAR: Frozen = { height: 0, regular: true };

function freezeJson(value: Json, depth: number): Frozen {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw corrupt("it holds a lone surrogate");
    return SCALAR;
  }
  if (typeof value === "number") {
    if (!Number.isFinite(value) || Object.is(value, -0)) throw corrupt("it holds a number that is not canonical");
    return SCALAR;
  }
  if (typeof value !== "object" || value === null) return SCALAR;
  if (depth >= MAX_DEPTH) throw corrupt(`it is nested deeper than ${MAX_DEPTH} levels`);
  let height = 0;
  let regular = Array.isArray(value) || isRegular(Object.keys(value));
  for (const child of Object.values(value)) {
    const frozen = freezeJson(child, depth + 1);
    if (frozen.height > height) height = frozen.height;
    if (!frozen.regular) regular = false;
  }
  Object.freeze(value);
  if (!regular) markIrregular(value);
  return regular && height === 0 ? FLAT : { height: height + 1, regular };
}

const FLAT: Frozen = { height: 1, regular: true };

function isRegular(keys: readonly string[]): boolean {
  for (const key of keys) if (!key.isWellFormed()) throw corrupt("a key in it holds a lone surrogate");
  if (isAscending(keys)) return true;
  if (!keys.some(startsWithDigit)) throw corrupt("its keys are not in canonical order");
  return false;
}
