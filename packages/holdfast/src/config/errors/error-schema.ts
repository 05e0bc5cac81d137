import * as z from "zod/mini";
import { readPattern } from "../../core/error-policy/pattern.ts";
import type { Pattern } from "../../core/error-policy/pattern.ts";
import { ERROR_ACTIONS, ERROR_TYPES, LAST_ACTIONS } from "../../core/error-policy/policy.ts";
import { FAILURE_CAUSES } from "../../core/agent/failure-cause.ts";
import { milliseconds } from "../amount.ts";
import { choice, leaf, model, nonEmpty, whole } from "../leaf.ts";

/** A run that tries a thousand times is no run that heeds its provider. */
const MAX_RETRIES = 50;
const MAX_DELAY_MS = 24 * 3_600_000;

const retry = z.strictObject({
  max: z.optional(leaf(`a whole number from 0 to ${MAX_RETRIES}`, (value) => upTo(whole(value, 0), MAX_RETRIES))),
  delay: z.optional(leaf("a duration up to 24h, such as 2s", delay)),
  multiplier: z.optional(leaf("a number from 1 to 100", multiplier)),
  maxDelay: z.optional(leaf("a duration up to 24h, such as 5m", delay)),
  jitter: z.optional(leaf("a number from 0 to 1", fraction)),
});

const rule = z.strictObject({
  id: leaf("a short name: letters, digits, - and _", ruleId),
  causes: z.optional(oneOrMore(choice(FAILURE_CAUSES))),
  types: z.optional(oneOrMore(choice(ERROR_TYPES))),
  pattern: z.optional(pattern()),
  action: choice(ERROR_ACTIONS),
  exhausted: z.optional(choice(LAST_ACTIONS)),
  retry: z.optional(retry),
});

/** `errors` in holdfast.config.yaml. */
export const errorSchema = z.strictObject({
  import: z.optional(leaf("a file", nonEmpty)),
  retry: z.optional(retry),
  exhausted: z.optional(choice(LAST_ACTIONS)),
  fallback: z.optional(
    z.strictObject({
      agents: z.optional(z.array(model(), "expected a list of agents, such as [codex, claude:haiku]")),
      tries: z.optional(leaf("a whole number from 1 to 50", (value) => upTo(whole(value, 1), MAX_RETRIES))),
    }),
  ),
  rules: z.optional(z.array(rule, "expected a list of rules").check(z.maxLength(100, "expected at most 100 rules"))),
});

export type FileErrors = z.output<typeof errorSchema>;
export type FileRetry = z.output<typeof retry>;

/** Says what is wrong with it and where, as the rest of the file's problems do. */
export function pattern() {
  return z.pipe(
    z.unknown(),
    z.transform((value: unknown, payload): Pattern => {
      const read = typeof value === "string" ? readPattern(value) : undefined;
      if (read?.ok === true) return { source: read.source, program: read.program };
      const why = read === undefined ? "expected a pattern" : `${read.message} (at character ${read.at + 1})`;
      payload.issues.push({ code: "custom", input: value, message: `${why}. ${SYNTAX}` });
      return z.NEVER;
    }),
  );
}

const SYNTAX = "Patterns know text, . [a-z] \\d \\w \\s \\b ^ $ ( ) | * + ? {2,5}";

/** It becomes part of a sentence and of a journal. */
export function ruleId(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z][\w-]{0,63}$/.test(value) ? value : undefined;
}

function oneOrMore<T extends z.ZodMiniType>(item: T) {
  return z.array(item, "expected a list").check(z.minLength(1, "expected at least one"));
}

function upTo(value: number | undefined, most: number): number | undefined {
  return value !== undefined && value <= most ? value : undefined;
}

function delay(value: unknown): number | undefined {
  return upTo(milliseconds(value), MAX_DELAY_MS);
}

function multiplier(value: unknown): number | undefined {
  return typeof value === "number" && value >= 1 && value <= 100 ? value : undefined;
}

function fraction(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= 1 ? value : undefined;
}
