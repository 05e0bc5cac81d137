import type { Shape } from "../core/shape.ts";
import { invalidDocument } from "./refusals.ts";
import type { Source } from "./refusals.ts";

/** Gives a document its type, or FORMAT_INVALID with the path of what does not fit. Nothing is copied: fields that no shape names stay. */
export function fitDocument<T>(shape: Shape<T>, value: unknown, source: Source): T {
  const misfit = shape(value);
  // The shape is tied to T and found nothing wrong.
  if (misfit === null) return value as T;
  const why = `there is ${describe(misfit.actual)} where ${misfit.expected} belongs`;
  throw invalidDocument(source, { path: misfit.path, why });
}

/** A field that may be missing. */
export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value) => (value === undefined ? null : shape(value));
}

function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return String(JSON.stringify(value)).slice(0, 60);
}
