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

/** Pure: the text of an AIWG error-handling document in, a policy or all that is wrong with it out. Nothing is ever written there. */
export function importAiwg(text: string): ImportedErrors {
  const read = parseYaml(text);
  const source = { text, document: read.document, lines: read.lines };
  if (!read.ok) return { ok: false, problems: read.faults.map((fault) => problemAt({ source, ...fault })) };
  const result = aiwgSchema.safeParse(read.value ?? {});
  if (result.success) return { ok: true, policy: policyOf(result.data) };
  return { ok: false, problems: result.error.issues.flatMap((issue) => explainIssue(issue, source, aiwgSchema)) };
}

/**
 * Each category is a rule by its pattern. Then, as the document says, the types that are retried; what neither names is decided as ever. "checkpoint_recover" is
 * what every retry is here: the files go back to where the call began.
 */
function policyOf(document: AiwgErrors): ErrorPolicy {
  const retry = retryOf(document);
  const isOn = document.fallback?.enabled ?? document.strategy === "retry_then_fallback";
  const named = isOn ? (document.fallback?.agents ?? []).map(({ fallback }) => fallback) : [];
  // Its agents are roles as a rule; a role is no program that could be started instead.
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

/** `max_attempts` counts the first one too. */
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
    // It says whether, not how much.
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
      return "park";
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

/** `error_handling` of a flow, as AIWG publishes its schema (error-handling/v1). What Holdfast has no use for is passed over. */
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
