/** Imports the error-handling policy of an AIWG document (error-handling/v1). */
import * as z from "zod/mini";
import { AGENT_NAMES, splitAgent } from "@holdfast/core/agent";
import {
  ERROR_ACTIONS,
  ERROR_TYPES,
  type ErrorAction,
  type ErrorPolicy,
  type ErrorRule,
  type LastAction,
  type RetryPlan,
  delaysOf,
} from "@holdfast/core/error-policy";
import {
  type ConfigProblem,
  choice,
  explainIssue,
  problemAt,
  settingValue,
  yesOrNo,
} from "@holdfast/formats/settings-file";
import { nonEmpty, whole } from "@holdfast/formats/setting-values";
import { parseYaml } from "@holdfast/platform/yaml";
import { pattern, ruleId } from "./schema.ts";

export type ImportedErrors =
  | { readonly ok: true; readonly policy: ErrorPolicy }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

/**
 * Pure: takes the text of an AIWG error-handling document and returns a policy or all its problems. Holdfast never
 * writes such a document.
 */
export function importAiwg(text: string): ImportedErrors {
  const read = parseYaml(text);
  const source = { text, document: read.document, lines: read.lines };
  if (!read.ok) return { ok: false, problems: read.faults.map((fault) => problemAt({ source, ...fault })) };
  const result = aiwgSchema.safeParse(read.value ?? {});
  if (result.success) return { ok: true, policy: policyOf(result.data) };
  return { ok: false, problems: result.error.issues.flatMap((issue) => explainIssue(issue, source, aiwgSchema)) };
}

/**
 * Each category becomes a rule with its pattern, followed by a rule for the retried types. Errors that match neither
 * use the default policy. "checkpoint_recover" needs no own action: every retry restores the files to the start of the
 * call.
 */
function policyOf(document: AiwgErrors): ErrorPolicy {
  const retry = retryOf(document);
  const isOn = document.fallback?.enabled ?? document.strategy === "retry_then_fallback";
  const named = isOn ? (document.fallback?.agents ?? []).map(({ fallback }) => fallback) : [];
  // AIWG's agents usually are roles, and a role is not a program that can be started as a fallback.
  const agents = named.filter((name) => AGENT_NAMES.some((known) => known === splitAgent(name).provider));
  const exhausted = lastOf(document, agents);
  const retried = document.retry?.retry_on ?? ["transient", "timeout"];
  const rules = (document.classification?.categories ?? []).map(({ id, pattern, type, action }): ErrorRule => ({
    id,
    causes: null,
    types: null,
    pattern,
    action: action ?? actionOf(document, retried.includes(type)),
    retry,
    exhausted,
  }));
  const byType: ErrorRule = {
    id: "retry_on",
    causes: null,
    types: ERROR_TYPES.filter((type) => retried.includes(type)),
    pattern: null,
    action: actionOf(document, true),
    retry,
    exhausted,
  };
  return { rules: [...rules, byType], retry, exhausted, fallback: { agents: [...new Set(agents)], tries: 1 } };
}

/** `max_attempts` includes the first attempt. */
function retryOf({ retry, strategy }: AiwgErrors): RetryPlan {
  const isOn = (retry?.enabled ?? true) && strategy !== "fail_fast";
  const {
    max_attempts = 3,
    initial_delay_ms = 1_000,
    max_delay_ms = 30_000,
    backoff_strategy,
    jitter = true,
  } = retry ?? {};
  return {
    delaysMs: delaysOf({
      retries: isOn ? max_attempts - 1 : 0,
      initialMs: initial_delay_ms,
      multiplier: 2,
      capMs: max_delay_ms,
      backoff: backoff_strategy ?? "exponential",
    }),
    // The document only turns jitter on or off; the amount is ours.
    jitter: jitter ? 0.5 : 0,
  };
}

function actionOf({ strategy }: AiwgErrors, isRetried: boolean): ErrorAction {
  if (strategy === "fail_fast") return "abort";
  if (isRetried) return "retry";
  return strategy === "graceful_degrade" ? "ignore" : "escalate";
}

function lastOf({ strategy }: AiwgErrors, agents: readonly string[]): LastAction {
  switch (strategy) {
    case "retry_then_escalate":
      return "escalate";
    case "retry_then_fallback":
      return agents.length > 0 ? "fallback" : "escalate";
    case "fail_fast":
      return "abort";
    case "graceful_degrade":
      return "ignore";
    case "checkpoint_recover":
      return "wait";
  }
}

const AIWG_STRATEGIES = [
  "retry_then_escalate",
  "retry_then_fallback",
  "fail_fast",
  "graceful_degrade",
  "checkpoint_recover",
] as const;
const BACKOFFS = ["none", "linear", "exponential", "fibonacci"] as const;
const MAX_DELAY_MS = 24 * 3_600_000;

const category = z.looseObject({
  id: settingValue("a short name: letters, digits, - and _", ruleId),
  pattern: pattern(),
  type: choice(ERROR_TYPES),
  action: z.optional(choice(ERROR_ACTIONS)),
});

const agentPair = z.looseObject({ fallback: settingValue("the name of an agent", nonEmpty) });

/** `error_handling` of a flow in AIWG's published schema (error-handling/v1). Unused fields are ignored. */
const aiwgSchema = z.looseObject({
  strategy: choice(AIWG_STRATEGIES),
  classification: z.optional(
    z.looseObject({ categories: z.optional(z.array(category, "expected a list of categories")) }),
  ),
  retry: z.optional(
    z.looseObject({
      enabled: z.optional(yesOrNo()),
      max_attempts: z.optional(settingValue("a whole number from 1 to 10", (value) => within(value, 1, 10))),
      initial_delay_ms: z.optional(settingValue("milliseconds up to a day", (value) => within(value, 0, MAX_DELAY_MS))),
      backoff_strategy: z.optional(choice(BACKOFFS)),
      max_delay_ms: z.optional(settingValue("milliseconds up to a day", (value) => within(value, 0, MAX_DELAY_MS))),
      jitter: z.optional(yesOrNo()),
      retry_on: z.optional(z.array(choice(ERROR_TYPES), "expected a list of types")),
    }),
  ),
  fallback: z.optional(
    z.looseObject({
      enabled: z.optional(yesOrNo()),
      agents: z.optional(z.array(agentPair, "expected a list of agents")),
    }),
  ),
});

type AiwgErrors = z.output<typeof aiwgSchema>;

function within(value: unknown, least: number, most: number): number | undefined {
  const number = whole(value, least);
  return number !== undefined && number <= most ? number : undefined;
}
