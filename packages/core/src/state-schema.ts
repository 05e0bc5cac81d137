// Checks the values of a run with a schema of the caller, through Standard Schema (https://standardschema.dev): zod, valibot, arktype.

import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { type JsonObject, asRecord, isRecord } from "./json.ts";
import { captureState, pointer } from "./values.ts";

/** The part of a Standard Schema that Holdfast uses. `S` is what the schema returns for values that fit. */
export interface StateSchema<S> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<S> | Promise<Validated<S>>;
  };
}

type Validated<S> = { readonly value: S; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Throws USAGE for what is not a Standard Schema. The schemas of some libraries are functions. */
export function checkSchema(call: string, option: string, given: unknown): void {
  if (given === undefined || isSchema(given)) return;
  throw usageError(
    `${call} cannot use ${describeValue(given)} for ${option}`,
    "Give a Standard Schema, such as z.object({ … }) of zod.",
  );
}

function isSchema(given: unknown): boolean {
  if ((typeof given !== "object" && typeof given !== "function") || given === null) return false;
  try {
    const standard: unknown = Reflect.get(given, "~standard");
    return typeof standard === "object" && standard !== null && typeof Reflect.get(standard, "validate") === "function";
  } catch {
    // A getter may throw.
    return false;
  }
}

/**
 * The values as the schema returns them: defaults filled in, deeply frozen. VALUES_INVALID, with the path, when they do not fit. `what` names
 * the values in the message, and `hint` is the remedy.
 */
export function parseValues<S extends object>(
  schema: StateSchema<S>,
  values: JsonObject,
  { what, hint }: { readonly what: string; readonly hint: string },
): S {
  const validated = validate(schema, values, what);
  // A capture has the same shape as its source.
  if (validated.kind === "value") return captureState(validated.value, values) as S;
  const { problems } = validated;
  const [first = { path: "", message: "the schema rejects them" }] = problems;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  throw new HoldfastError({
    code: "VALUES_INVALID",
    message: `${what} do not match the schema at ${first.path === "" ? "the top" : first.path}: ${first.message}${more}`,
    hint,
    data: { path: first.path, problems },
  });
}

type Outcome =
  | { readonly kind: "value"; readonly value: object }
  | { readonly kind: "issues"; readonly problems: readonly { readonly path: string; readonly message: string }[] };

/** A schema is code of the caller: what it throws or returns may be anything. */
function validate(schema: StateSchema<object>, values: JsonObject, what: string): Outcome {
  try {
    const { vendor } = schema["~standard"];
    const returned: unknown = schema["~standard"].validate(values);
    if (typeof returned !== "object" || returned === null)
      throw new TypeError(`it returned ${describeValue(returned)}`);
    if (typeof Reflect.get(returned, "then") === "function") {
      // Without a handler, a rejection would end the process.
      Promise.resolve(returned).catch(() => undefined);
      throw usageError(
        `The schema for ${what} validates asynchronously (${vendor})`,
        "Use a schema without asynchronous refinements or transforms: values are checked in the call that saves them.",
      );
    }
    const issues: unknown = Reflect.get(returned, "issues");
    if (issues === undefined) {
      const value: unknown = Reflect.get(returned, "value");
      if (typeof value === "object" && value !== null) return { kind: "value", value };
      throw new TypeError(`it returned ${describeValue(value)} for value`);
    }
    if (!Array.isArray(issues)) throw new TypeError(`it returned ${describeValue(issues)} for issues`);
    return { kind: "issues", problems: issues.map(problemOf) };
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    throw new HoldfastError({
      code: "VALUES_INVALID",
      message: `The schema for ${what} failed: ${cause instanceof Error ? cause.message : describeValue(cause)}`,
      hint: "Fix the schema; nothing was written.",
      data: { path: "", problems: [] },
      cause,
    });
  }
}

function problemOf(issue: unknown): { readonly path: string; readonly message: string } {
  const { message, path } = asRecord(issue);
  const parts = Array.isArray(path) ? path.map((part: unknown) => String(isRecord(part) ? part["key"] : part)) : [];
  return { path: pointer(parts), message: typeof message === "string" ? message : "the schema rejects them" };
}
