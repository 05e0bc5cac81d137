/** The schema of holdfast.config.yaml and its parser. */
import { isMap, isScalar } from "yaml";
import { RE2JS, RE2JSException } from "re2js";
import * as z from "zod/mini";
import { FAILURE_CAUSES, parseAgentArgs } from "@holdfast/core/agent";
import { parseEnvironmentNames } from "@holdfast/core/agent-environment";
import type { Price, PriceTable } from "@holdfast/core/budget";
import { EXECUTION_MODES, TRIGGERS } from "@holdfast/core/checkpoint";
import { ERROR_ACTIONS, ERROR_TYPES, LAST_ACTIONS, type Pattern } from "@holdfast/core/error-policy";
import { asRecord, isRecord } from "@holdfast/core/json";
import { nearest } from "@holdfast/core/options";
import type { KeepRule } from "@holdfast/core/retention";
import { FORMAT_NAMES } from "@holdfast/formats/format-names";
import {
  type ConfigProblem,
  type ConfigSource,
  choice,
  count,
  explainIssue,
  model,
  problemAt,
  settingValue,
  yesOrNo,
} from "@holdfast/formats/settings-file";
import { MODEL, milliseconds, money, nonEmpty, whole } from "@holdfast/formats/setting-values";
import { type YamlText, parseYaml } from "@holdfast/platform/yaml";
import {
  TEXT,
  WORDS,
  COMMANDS,
  COMMANDS_OR_NONE,
  COPIES,
  DAYS,
  DURATION,
  SIZE,
  MONEY,
  KEEP,
  PRICE,
  or,
  between,
  keys,
  commands,
  commandsOrNone,
  copyPatterns,
  words,
  hostName,
  size,
  days,
} from "./value-shapes.ts";

/** An upper limit: a run that retries more often ignores what its provider reports. */
const MAX_RETRIES = 50;
const MAX_DELAY_MS = 24 * 3_600_000;
const MAX_PATTERN = 500;

const retry = z.strictObject({
  max: z.optional(
    settingValue(
      `a whole number from 0 to ${MAX_RETRIES}`,
      (value) => upTo(whole(value, 0), MAX_RETRIES),
      between(0, MAX_RETRIES),
    ),
  ),
  delay: z.optional(settingValue("a duration up to 24h, such as 2s", delay, DURATION)),
  multiplier: z.optional(
    settingValue("a number from 1 to 100", multiplier, { type: "number", minimum: 1, maximum: 100 }),
  ),
  maxDelay: z.optional(settingValue("a duration up to 24h, such as 5m", delay, DURATION)),
  jitter: z.optional(settingValue("a number from 0 to 1", fraction, { type: "number", minimum: 0, maximum: 1 })),
});

const rule = z.strictObject({
  id: settingValue("a short name: letters, digits, - and _", ruleId, {
    type: "string",
    pattern: String.raw`^[A-Za-z][\w-]{0,63}$`,
  }),
  causes: z.optional(oneOrMore(choice(FAILURE_CAUSES))),
  types: z.optional(oneOrMore(choice(ERROR_TYPES))),
  pattern: z.optional(pattern()),
  action: choice(ERROR_ACTIONS),
  exhausted: z.optional(choice(LAST_ACTIONS)),
  retry: z.optional(retry),
});

/** `errors` in holdfast.config.yaml. */
const errorSchema = z.strictObject({
  import: z.optional(settingValue("a file", nonEmpty, TEXT)),
  retry: z.optional(retry),
  exhausted: z.optional(choice(LAST_ACTIONS)),
  fallback: z.optional(
    z.strictObject({
      agents: z.optional(z.array(model(), "expected a list of agents, such as [codex, claude:haiku]")),
      tries: z.optional(
        settingValue(
          "a whole number from 1 to 50",
          (value) => upTo(whole(value, 1), MAX_RETRIES),
          between(1, MAX_RETRIES),
        ),
      ),
    }),
  ),
  rules: z.optional(z.array(rule, "expected a list of rules").check(z.maxLength(100, "expected at most 100 rules"))),
});

export type FileErrors = z.output<typeof errorSchema>;
export type FileRetry = z.output<typeof retry>;

/** Validates a regular expression and reports problems with their position, like every other setting. */
export function pattern() {
  const read = z.pipe(
    z.unknown(),
    z.transform((value: unknown, payload): Pattern => {
      const parsed = typeof value === "string" ? compilePattern(value) : "expected a pattern";
      if (typeof parsed !== "string") return parsed;
      payload.issues.push({ code: "custom", input: value, message: `${parsed}. ${SYNTAX}` });
      return z.NEVER;
    }),
  );
  return read.register(z.globalRegistry, { type: "string", minLength: 1, maxLength: MAX_PATTERN });
}

const SYNTAX = "Patterns are RE2 regular expressions: no look-around, no back-references";

/**
 * The pattern, or why it is none. Patterns come from files that others may have written and meet texts that others may have caused, so they are
 * matched by RE2: its time grows with the text, whatever the pattern.
 */
function compilePattern(source: string): Pattern | string {
  if (source === "") return "a pattern cannot be empty";
  if (source.length > MAX_PATTERN) return `a pattern has at most ${MAX_PATTERN} characters`;
  try {
    const compiled = RE2JS.compile(source, RE2JS.CASE_INSENSITIVE);
    return { source, matches: (text) => compiled.matcher(text).find() };
  } catch (error) {
    if (error instanceof RE2JSException) return error.message.replace("error parsing regexp: ", "").replace("(?i)", "");
    throw error;
  }
}

/** An id must be short and plain because it appears in messages and in the journal. */
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

const BUILT_IN_EFFECTS = ["push", "pull_request", "pull_request_text", "state_label"] as const;

const APPROVE = `a list of kinds of effects, such as [push, pull_request]; built in are ${BUILT_IN_EFFECTS.join(", ")}, and a name that is only nearly one of them counts as a mistake`;

/** A misspelt name would switch the question off without an error. Kinds of the user's own workflows are allowed. */
function effectKinds(value: unknown): readonly string[] | undefined {
  const kinds = Array.isArray(value) && value.length === 0 ? [] : words(value);
  const isKnown = (kind: string): boolean =>
    BUILT_IN_EFFECTS.some((name) => name === kind) ||
    (/^[A-Za-z][\w.-]{0,63}$/.test(kind) && nearest(kind, BUILT_IN_EFFECTS).length === 0);
  return kinds?.every(isKnown) === true ? [...new Set(kinds)] : undefined;
}

const ENV_NAMES =
  "a list of names of variables, or of PREFIX_*, such as [DATABASE_URL, MYAPP_*]; GIT_* and HOLDFAST_* are never passed";
const ARGS =
  'arguments by agent, such as { codex: ["--sandbox", "read-only"] }, without those that Holdfast sets (model, session, prompt, output)';

interface StoreSetting {
  readonly path: string | null;
  readonly maxSize: number | null;
}

/** A text names only the directory. */
function storeSetting(value: unknown): string | StoreSetting | undefined {
  if (!isRecord(value)) return nonEmpty(value);
  const { path, maxSize, ...others } = value;
  const named = path === undefined ? null : nonEmpty(path);
  const limit = maxSize === undefined || maxSize === "none" ? null : size(maxSize);
  if (named === undefined || limit === undefined || Object.keys(others).length > 0) return undefined;
  return { path: named, maxSize: limit };
}

/** The schema of holdfast.config.yaml. Every key is optional: an absent key has its default. */
export const configSchema = z.strictObject({
  store: z.optional(
    settingValue("a directory, or { path: directory, maxSize: 5GB }", storeSetting, {
      anyOf: [TEXT, keys({ path: TEXT, maxSize: or("none", SIZE) })],
    }),
  ),
  retention: z.optional(
    z.strictObject({
      preset: z.optional(choice(["standard", "loops"])),
      keep: z.optional(z.strictObject(keepShape())),
      maxPerRun: z.optional(atLeastOrNone(0)),
      maxAge: z.optional(
        settingValue(
          'a duration such as 30d, or "never"',
          (value) => (value === "never" ? null : days(value)),
          or("never", DAYS),
        ),
      ),
      minRunAge: z.optional(
        settingValue(
          'a duration such as 30d, or "none"',
          (value) => (value === "none" ? null : days(value)),
          or("none", DAYS),
        ),
      ),
      onSuccess: z.optional(choice(["keep_latest", "latest_only", "by_rules"])),
      onFailure: z.optional(choice(["keep_recent", "by_rules"])),
      recent: z.optional(settingValue("a duration such as 7d", days, DAYS)),
      maxBytes: z.optional(
        settingValue(
          'a size such as 5GB, or "none"',
          (value) => (value === "none" ? null : size(value)),
          or("none", SIZE),
        ),
      ),
    }),
  ),
  workspace: z.optional(
    z.strictObject({
      maxUntrackedBytes: z.optional(settingValue("a size such as 20MB", size, SIZE)),
      includeIgnored: z.optional(yesOrNo()),
      mainCheckout: z.optional(choice(["ask", "report"])),
      worktrees: z.optional(settingValue("a directory", nonEmpty, TEXT)),
      setup: z.optional(settingValue("a shell command, or a list of them", commandsOrNone, COMMANDS_OR_NONE)),
      copy: z.optional(
        settingValue("a list of files or patterns below the checkout, such as [.env]", copyPatterns, COPIES),
      ),
    }),
  ),
  gc: z.optional(z.strictObject({ auto: z.optional(yesOrNo()) })),
  agent: z.optional(model()),
  mode: z.optional(choice(EXECUTION_MODES)),
  models: z.optional(z.strictObject({ impl: z.optional(model()), review: z.optional(model()) })),
  agents: z.optional(
    z.strictObject({
      maxIdle: z.optional(
        settingValue(
          'a duration such as 30m, or "none"',
          (value) => (value === "none" ? null : milliseconds(value)),
          or("none", DURATION),
        ),
      ),
      checkpointEvery: z.optional(
        settingValue(
          'a duration such as 10m, or "none"',
          (value) => (value === "none" ? null : milliseconds(value)),
          or("none", DURATION),
        ),
      ),
      args: z.optional(
        settingValue(ARGS, parseAgentArgs, {
          type: "object",
          additionalProperties: { type: "array", items: TEXT },
        }),
      ),
      env: z.optional(settingValue(ENV_NAMES, parseEnvironmentNames, { type: "array", items: TEXT })),
    }),
  ),
  forge: z.optional(
    z.strictObject({
      kind: z.optional(choice(["auto", "local", "github", "gitlab", "none"])),
      path: z.optional(settingValue("a directory", nonEmpty, TEXT)),
      host: z.optional(
        settingValue("a host such as ghe.example.com", hostName, {
          type: "string",
          pattern: "^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$",
        }),
      ),
    }),
  ),
  impl: z.optional(
    z.strictObject({
      maxIterations: z.optional(count(1)),
      maxReviews: z.optional(count(1)),
      onMaxReviews: z.optional(choice(["proceed", "fatal"])),
      limits: z.optional(
        z.strictObject({
          prAttempts: z.optional(count(1)),
          rebases: z.optional(count(0)),
          parseFailures: z.optional(count(1)),
          reviewFailures: z.optional(count(1)),
          stuck: z.optional(count(1)),
          simplifications: z.optional(count(0)),
        }),
      ),
      review: z.optional(yesOrNo()),
      simplify: z.optional(yesOrNo()),
      yolo: z.optional(yesOrNo()),
      waitForCi: z.optional(yesOrNo()),
      applyReviews: z.optional(yesOrNo()),
      draft: z.optional(yesOrNo()),
      attribution: z.optional(yesOrNo()),
      afterRebase: z.optional(choice(["review", "impl"])),
      gate: z.optional(settingValue("a shell command", nonEmpty, TEXT)),
      baseGate: z.optional(yesOrNo()),
      base: z.optional(settingValue("a branch name", nonEmpty, TEXT)),
      prompts: z.optional(
        z.strictObject({ impl: file(), review: file(), simplify: file(), rebase: file(), continue: file() }),
      ),
      tags: z.optional(settingValue("a list of words such as [feat, bugfix]", words, WORDS)),
      thresholds: z.optional(z.strictObject(thresholdShape())),
    }),
  ),
  ralph: z.optional(
    z.strictObject({
      until: z.optional(settingValue("a shell command, or a list of them", commands, COMMANDS)),
      untilTimeout: z.optional(settingValue("a duration such as 10m", milliseconds, DURATION)),
      firstCheck: z.optional(yesOrNo()),
      maxIterations: z.optional(count(1)),
      memory: z.optional(
        settingValue(
          "a whole number from 1 to 10",
          (value) => (Number(value) > 10 ? undefined : whole(value, 1)),
          between(1, 10),
        ),
      ),
      memoryPolicy: z.optional(choice(["fifo", "recency", "relevance_weighted"])),
      onStuck: z.optional(choice(["stop", "ask", "rollback"])),
      detection: z.optional(
        z.strictObject({
          stuck: z.optional(atLeastOrNone(2)),
          oscillation: z.optional(atLeastOrNone(4)),
          regression: z.optional(atLeastOrNone(0)),
          burn: z.optional(atLeastOrNone(2)),
        }),
      ),
      quality: z.optional(
        z.strictObject({
          validation: z.optional(count(0)),
          completeness: z.optional(count(0)),
          correctness: z.optional(count(0)),
          readability: z.optional(count(0)),
          efficiency: z.optional(count(0)),
        }),
      ),
      tokensPerIteration: z.optional(atLeastOrNone(1)),
    }),
  ),
  errors: z.optional(errorSchema),
  checkpoints: z.optional(
    z.strictObject({
      artifactComplete: z.optional(yesOrNo()),
      beforeExternal: z.optional(yesOrNo()),
      beforeRisky: z.optional(yesOrNo()),
    }),
  ),
  approve: z.optional(
    settingValue(APPROVE, effectKinds, {
      type: "array",
      items: { type: "string", pattern: String.raw`^[A-Za-z][\w.-]{0,63}$` },
    }),
  ),
  loops: z.optional(
    z.strictObject({
      max: z.optional(atLeastOrNone(1)),
      workflows: z.optional(settingValue("a list of workflows such as [ralph, impl]", words, WORDS)),
    }),
  ),
  mirror: z.optional(
    z.strictObject({
      format: z.optional(
        settingValue(
          `one of ${FORMAT_NAMES.join(", ")}, or "none"`,
          (value) => (value === "none" ? null : FORMAT_NAMES.find((name) => name === value)),
          { enum: [...FORMAT_NAMES, "none"] },
        ),
      ),
      directory: z.optional(settingValue("a directory", nonEmpty, TEXT)),
    }),
  ),
  layout: z.optional(choice(["own", "seed"])),
  aiwg: z.optional(
    z.strictObject({
      mirror: z.optional(yesOrNo()),
      directory: z.optional(settingValue("a directory", nonEmpty, TEXT)),
      keep: z.optional(count(0)),
      maxAge: z.optional(
        settingValue(
          'a duration such as 30d, or "never"',
          (value) => (value === "never" ? null : days(value)),
          or("never", DAYS),
        ),
      ),
      onSuccess: z.optional(choice(["keep_latest", "by_rules"])),
      onFailure: z.optional(choice(["keep_all_recent", "by_rules"])),
    }),
  ),
  prices: z.optional(
    settingValue(
      'prices by provider:model, such as { "codex:gpt-5": { input: 1.25, cached: 0.125, output: 10 } }',
      prices,
      {
        type: "object",
        propertyNames: { pattern: MODEL.source },
        additionalProperties: keys({ input: PRICE, cached: PRICE, cacheWrite: PRICE, output: PRICE }, [
          "input",
          "output",
        ]),
      },
    ),
  ),
  budget: z.optional(
    z.strictObject({
      maxTokens: z.optional(
        settingValue(
          'a number from 1, or "none"',
          (value) => (value === "none" ? null : whole(value, 1)),
          or("none", { type: "integer", minimum: 1 }),
        ),
      ),
      assumedTokens: z.optional(
        settingValue("a number from 1", (value) => whole(value, 1), { type: "integer", minimum: 1 }),
      ),
      maxCost: z.optional(
        settingValue(
          'US dollars such as 2.50, or "none"',
          (value) => (value === "none" ? null : money(value)),
          or("none", MONEY),
        ),
      ),
      maxTime: z.optional(
        settingValue(
          'a duration such as 2h, or "none"',
          (value) => (value === "none" ? null : milliseconds(value)),
          or("none", DURATION),
        ),
      ),
    }),
  ),
});

export type FileConfig = z.output<typeof configSchema>;

function keepShape() {
  const keep = z.optional(keepRule());
  const triggers = TRIGGERS.map((trigger) => [trigger, keep] as const);
  return { ...Object.fromEntries(triggers), default: keep };
}

function keepRule() {
  return settingValue(
    'how many to keep: a number, "all", or { keep: 5, per: stage }',
    (value) => {
      if (typeof value !== "object" || value === null) return ruleOf(value, "run");
      const extra = Object.keys(value).find((key) => key !== "keep" && key !== "per");
      if (extra !== undefined || !("keep" in value)) return undefined;
      return ruleOf(value.keep, "per" in value ? value.per : "run");
    },
    { anyOf: [...KEEP.anyOf, keys({ keep: KEEP, per: { enum: ["run", "stage"] } }, ["keep"])] },
  );
}

function ruleOf(keep: unknown, per: unknown): KeepRule | undefined {
  if (per !== "run" && per !== "stage") return undefined;
  if (keep === "all") return { keep, per };
  return typeof keep === "number" && Number.isSafeInteger(keep) && keep >= 0 ? { keep, per } : undefined;
}

function thresholdShape(): Record<"faithful" | "style" | "docs" | "cornerCases", ReturnType<typeof percent>> {
  return { faithful: percent(), style: percent(), docs: percent(), cornerCases: percent() };
}

function file() {
  return z.optional(settingValue("a file", nonEmpty, TEXT));
}

function percent() {
  return z.optional(
    settingValue(
      "a score from 0 to 100",
      (value) => {
        const score = whole(value, 0);
        return score !== undefined && score <= 100 ? score : undefined;
      },
      between(0, 100),
    ),
  );
}

/** US dollars per million tokens. Cached tokens cost as much as the others unless a price is set. */
function prices(value: unknown): PriceTable | undefined {
  if (!isRecord(value)) return undefined;
  const table: Record<string, Price> = {};
  for (const [name, price] of Object.entries(value)) {
    const { input, output, cached = input, cacheWrite = input, ...rest } = asRecord(price);
    if (!MODEL.test(name) || Object.keys(rest).length > 0) return undefined;
    if (!isPrice(input) || !isPrice(cached) || !isPrice(output) || !isPrice(cacheWrite)) return undefined;
    table[name] = { input, cached, output, ...(cacheWrite === input ? {} : { cacheWrite }) };
  }
  return table;
}

function isPrice(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 && value <= 1_000_000;
}

function atLeastOrNone(least: number) {
  return settingValue(`a number from ${least}, or "none"`, (value) => (value === "none" ? null : whole(value, least)), {
    anyOf: [{ type: "integer", minimum: least }, { const: "none" }],
  });
}

export type ParsedConfig =
  | {
      readonly ok: true;
      readonly values: FileConfig;
      /** Line of each key that the file sets, by its dotted path. */ readonly lines: ReadonlyMap<string, number>;
    }
  | {
      readonly ok: false;
      readonly problems: readonly ConfigProblem[];
      /** The location of the store, if that line is valid and another is not. */
      readonly store: { readonly value: string; readonly line: number } | null;
    };

/** Pure: takes the text of a holdfast.config.yaml and returns the settings or all its problems. */
export function parseConfig(text: string): ParsedConfig {
  const read = parseYaml(text);
  const source = { text, document: read.document, lines: read.lines };
  if (!read.ok)
    return failed(
      read.faults.map((fault) => problemAt({ source, ...fault })),
      source,
    );
  const result = configSchema.safeParse(read.value ?? {});
  if (!result.success)
    return failed(
      result.error.issues.flatMap((issue) => explainIssue(issue, source, configSchema)),
      source,
    );
  return { ok: true, values: result.data, lines: linesOf(source) };
}

function failed(problems: readonly ConfigProblem[], source: ConfigSource): ParsedConfig {
  return {
    ok: false,
    problems: problems.toSorted((a, b) => a.line - b.line || a.column - b.column),
    store: storeOf(source),
  };
}

function storeOf({ document, lines }: ConfigSource): { readonly value: string; readonly line: number } | null {
  if (!isMap(document.contents)) return null;
  const setting = document.contents.get("store", true);
  const node = isMap(setting) ? setting.get("path", true) : setting;
  if (!isScalar(node) || typeof node.value !== "string" || node.value === "" || !node.range) return null;
  return { value: node.value, line: lines.linePos(node.range[0]).line };
}

function linesOf({ document, lines: counter }: YamlText): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  const walk = (node: unknown, path: readonly string[]): void => {
    if (!isMap(node)) return;
    for (const { key, value } of node.items) {
      if (!isScalar(key) || !key.range) continue;
      const place = [...path, String(key.value)];
      lines.set(place.join("."), counter.linePos(key.range[0]).line);
      walk(value, place);
    }
  };
  walk(document.contents, []);
  return lines;
}
