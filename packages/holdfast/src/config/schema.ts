// The schema of holdfast.config.yaml, its values and its parser.

import { isMap, isScalar } from "yaml";
import { RE2JS, RE2JSException } from "re2js";
import * as z from "zod/mini";
import { isCopyPattern } from "@holdfast/core/copy-files";
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
import {
  MODEL,
  milliseconds,
  money,
  nonEmpty,
  parseDuration,
  parseSize,
  whole,
} from "@holdfast/formats/setting-values";
import { type YamlText, parseYaml } from "@holdfast/platform/yaml";
import { COUNTS, NAMES, counts, names } from "./fleet-settings.ts";

/* The JSON Schema of values, for editors. A shape accepts at least what the parser accepts; the test of the published schema lists what else. */

type Shape = Readonly<Record<string, unknown>>;

const TEXT = { type: "string", pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$` } as const;
const WORD = { type: "string", pattern: String.raw`^[\w.-]+$` } as const;
const WORDS = { type: "array", items: WORD, minItems: 1 } as const;
const COMMANDS = { anyOf: [TEXT, { type: "array", items: TEXT, minItems: 1 }] } as const;
const COMMANDS_OR_NONE = { anyOf: [TEXT, { type: "array", items: TEXT }] } as const;
/** The rule of `isCopyPattern`. */
const COPY = {
  type: "string",
  pattern: String.raw`^(?!\.[gG][iI][tT](?:/|$))(?!(?:.*/)?\.{0,2}(?:/|$))[^\\\u0000]*[^\s\\\u0000][^\\\u0000]*$`,
} as const;
const COPIES = { anyOf: [COPY, { type: "array", items: COPY }] } as const;
const DAYS = { type: "string", pattern: String.raw`^\s*\d+(?:\.\d+)?\s*(?:d|h|m|s|ms|w)\s*$` } as const;
/** A duration that is not 0. */
const DURATION = {
  type: "string",
  pattern: String.raw`^(?=.*[1-9])\s*\d+(?:\.\d+)?\s*(?:d|h|m|s|ms|w)\s*$`,
} as const;
const SIZE = {
  anyOf: [
    { type: "number", minimum: 0 },
    { type: "string", pattern: String.raw`^\s*\d+(?:\.\d+)?\s*(?:[kKmMgGtT]?[bB]|[kKmMgGtT][iI][bB])?\s*$` },
  ],
} as const;
const MONEY = {
  anyOf: [
    { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1_000_000_000 },
    { type: "string", pattern: String.raw`^\$?(?=.*[1-9])\d{1,9}(?:\.\d+)?$` },
  ],
} as const;
const KEEP = { anyOf: [{ type: "integer", minimum: 0 }, { const: "all" }] } as const;
const PRICE = { type: "number", minimum: 0, maximum: 1_000_000 } as const;

/** An upper limit: a run that retries more often ignores what its provider reports. */
const MAX_RETRIES = 50;
const MAX_DELAY_MS = 24 * 3_600_000;
const MAX_PATTERN = 500;

const retry = group({
  max: wholeBetween(0, MAX_RETRIES),
  delay: settingValue("a duration up to 24h, such as 2s", delay, DURATION),
  multiplier: numberBetween(1, 100),
  maxDelay: settingValue("a duration up to 24h, such as 5m", delay, DURATION),
  jitter: numberBetween(0, 1),
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
const errorSchema = group({
  import: settingValue("a file", nonEmpty, TEXT),
  retry,
  exhausted: choice(LAST_ACTIONS),
  fallback: group({
    agents: z.array(model(), "expected a list of agents, such as [codex, claude:haiku]"),
    tries: wholeBetween(1, MAX_RETRIES),
  }),
  rules: z.array(rule, "expected a list of rules").check(z.maxLength(100, "expected at most 100 rules")),
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

/** Not an option of git and no program of a transport, such as ext::. */
const REMOTE = /^(?!-)(?!.*::)[^\p{Cc}]{1,2000}$/u;

/** An absent key has its default. */
export const configSchema = group({
  store: settingValue("a directory, or { path: directory, maxSize: 5GB }", storeSetting, {
    anyOf: [TEXT, keys({ path: TEXT, maxSize: or("none", SIZE) })],
  }),
  retention: group({
    preset: choice(["standard", "loops"]),
    keep: group(keepShape()),
    maxPerRun: atLeastOrNone(0),
    maxAge: orWord("never", "a duration such as 30d", days, DAYS),
    minRunAge: orWord("none", "a duration such as 30d", days, DAYS),
    onSuccess: choice(["keep_latest", "latest_only", "by_rules"]),
    onFailure: choice(["keep_recent", "by_rules"]),
    recent: settingValue("a duration such as 7d", days, DAYS),
    maxBytes: orWord("none", "a size such as 5GB", size, SIZE),
  }),
  workspace: group({
    maxUntrackedBytes: settingValue("a size such as 20MB", size, SIZE),
    includeIgnored: yesOrNo(),
    mainCheckout: choice(["ask", "report"]),
    worktrees: settingValue("a directory", nonEmpty, TEXT),
    setup: settingValue("a shell command, or a list of them", commandsOrNone, COMMANDS_OR_NONE),
    copy: settingValue("a list of files or patterns below the checkout, such as [.env]", copyPatterns, COPIES),
  }),
  gc: group({ auto: yesOrNo() }),
  files: group({
    remote: settingValue(
      'the name or URL of a git remote, or "none"',
      (value) => (value === "none" ? null : typeof value === "string" && REMOTE.test(value) ? value : undefined),
      { type: "string", pattern: REMOTE.source },
    ),
  }),
  fleet: group({
    dispatch: settingValue("a directory, or a postgres:// URL", nonEmpty, TEXT),
    perQueue: atLeastOrNone(0),
    perRepository: atLeastOrNone(0),
    queues: settingValue("a number from 0 for each queue, such as { claude: 4 }", counts, COUNTS),
    repositories: settingValue("a number from 0 for each repository, such as { acme/shop: 2 }", counts, COUNTS),
    agents: settingValue("a number from 0 for each agent, such as { codex: 2 }", counts, COUNTS),
    queueOf: settingValue("the queue of each agent, such as { opencode: anthropic, claude: anthropic }", names, NAMES),
  }),
  agent: model(),
  mode: choice(EXECUTION_MODES),
  models: group({ impl: model(), review: model() }),
  agents: group({
    maxIdle: orWord("none", "a duration such as 30m", milliseconds, DURATION),
    checkpointEvery: orWord("none", "a duration such as 10m", milliseconds, DURATION),
    args: settingValue(ARGS, parseAgentArgs, {
      type: "object",
      additionalProperties: { type: "array", items: TEXT },
    }),
    env: settingValue(ENV_NAMES, parseEnvironmentNames, { type: "array", items: TEXT }),
  }),
  forge: group({
    kind: choice(["auto", "local", "github", "gitlab", "none"]),
    path: settingValue("a directory", nonEmpty, TEXT),
    host: settingValue("a host such as ghe.example.com", hostName, {
      type: "string",
      pattern: "^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$",
    }),
  }),
  impl: group({
    maxIterations: count(1),
    maxReviews: count(1),
    onMaxReviews: choice(["proceed", "fatal"]),
    limits: group({
      prAttempts: count(1),
      rebases: count(0),
      parseFailures: count(1),
      reviewFailures: count(1),
      stuck: count(1),
      simplifications: count(0),
    }),
    review: yesOrNo(),
    simplify: yesOrNo(),
    yolo: yesOrNo(),
    waitForCi: yesOrNo(),
    applyReviews: yesOrNo(),
    draft: yesOrNo(),
    attribution: yesOrNo(),
    afterRebase: choice(["review", "impl"]),
    gate: settingValue("a shell command", nonEmpty, TEXT),
    baseGate: yesOrNo(),
    base: settingValue("a branch name", nonEmpty, TEXT),
    prompts: group({ impl: file(), review: file(), simplify: file(), rebase: file(), continue: file() }),
    tags: settingValue("a list of words such as [feat, bugfix]", words, WORDS),
    thresholds: group({ faithful: percent(), style: percent(), docs: percent(), cornerCases: percent() }),
  }),
  ralph: group({
    until: settingValue("a shell command, or a list of them", commands, COMMANDS),
    untilTimeout: settingValue("a duration such as 10m", milliseconds, DURATION),
    firstCheck: yesOrNo(),
    maxIterations: count(1),
    memory: wholeBetween(1, 10),
    memoryPolicy: choice(["fifo", "recency", "relevance_weighted"]),
    onStuck: choice(["stop", "ask", "rollback"]),
    detection: group({
      stuck: atLeastOrNone(2),
      oscillation: atLeastOrNone(4),
      regression: atLeastOrNone(0),
      burn: atLeastOrNone(2),
    }),
    quality: group({
      validation: count(0),
      completeness: count(0),
      correctness: count(0),
      readability: count(0),
      efficiency: count(0),
    }),
    tokensPerIteration: atLeastOrNone(1),
  }),
  errors: errorSchema,
  checkpoints: group({
    artifactComplete: yesOrNo(),
    beforeExternal: yesOrNo(),
    beforeRisky: yesOrNo(),
  }),
  approve: settingValue(APPROVE, effectKinds, {
    type: "array",
    items: { type: "string", pattern: String.raw`^[A-Za-z][\w.-]{0,63}$` },
  }),
  loops: group({
    max: atLeastOrNone(1),
    workflows: settingValue("a list of workflows such as [ralph, impl]", words, WORDS),
  }),
  mirror: group({
    format: settingValue(
      `one of ${FORMAT_NAMES.join(", ")}, or "none"`,
      (value) => (value === "none" ? null : FORMAT_NAMES.find((name) => name === value)),
      { enum: [...FORMAT_NAMES, "none"] },
    ),
    directory: settingValue("a directory", nonEmpty, TEXT),
  }),
  layout: choice(["own", "seed"]),
  aiwg: group({
    mirror: yesOrNo(),
    directory: settingValue("a directory", nonEmpty, TEXT),
    keep: count(0),
    maxAge: orWord("never", "a duration such as 30d", days, DAYS),
    onSuccess: choice(["keep_latest", "by_rules"]),
    onFailure: choice(["keep_all_recent", "by_rules"]),
  }),
  prices: settingValue(
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
  budget: group({
    maxTokens: atLeastOrNone(1),
    assumedTokens: settingValue("a number from 1", (value) => whole(value, 1), { type: "integer", minimum: 1 }),
    maxCost: orWord("none", "US dollars such as 2.50", money, MONEY),
    maxTime: orWord("none", "a duration such as 2h", milliseconds, DURATION),
  }),
});

export type FileConfig = z.output<typeof configSchema>;

function keepShape() {
  const keep = keepRule();
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

function file() {
  return settingValue("a file", nonEmpty, TEXT);
}

function percent() {
  return wholeBetween(0, 100, "a score");
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
  const atLeast = (value: unknown): number | undefined => whole(value, least);
  return orWord("none", `a number from ${least}`, atLeast, { type: "integer", minimum: least });
}

/** A value that the user can switch off with the word. */
function orWord<T>(word: string, expected: string, parse: (value: unknown) => T | undefined, shape: Shape) {
  const read = (value: unknown): T | null | undefined => (value === word ? null : parse(value));
  return settingValue(`${expected}, or "${word}"`, read, or(word, shape));
}

function wholeBetween(least: number, most: number, what = "a whole number") {
  const parse = (value: unknown): number | undefined => upTo(whole(value, least), most);
  return settingValue(`${what} from ${least} to ${most}`, parse, { type: "integer", minimum: least, maximum: most });
}

function numberBetween(least: number, most: number) {
  const parse = (value: unknown): number | undefined =>
    typeof value === "number" && value >= least && value <= most ? value : undefined;
  return settingValue(`a number from ${least} to ${most}`, parse, { type: "number", minimum: least, maximum: most });
}

/** Every key is optional: an absent key has its default. */
function group<T extends z.core.$ZodLooseShape>(shape: T) {
  return z.partial(z.strictObject(shape));
}

function or(word: string, shape: Shape) {
  return { anyOf: [shape, { const: word }] };
}

/** An object with these keys only. */
function keys(properties: Readonly<Record<string, unknown>>, required: readonly string[] = []) {
  return { type: "object", properties, required, additionalProperties: false };
}

function commands(value: unknown): readonly string[] | undefined {
  const all = Array.isArray(value) ? value : [value];
  const texts = all.flatMap((one) => nonEmpty(one) ?? []);
  return texts.length === all.length && texts.length > 0 ? texts : undefined;
}

/** An empty list is a choice: no set-up. */
function commandsOrNone(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) && value.length === 0 ? [] : commands(value);
}

function copyPatterns(value: unknown): readonly string[] | undefined {
  const patterns = commandsOrNone(value);
  return patterns?.every(isCopyPattern) === true ? patterns : undefined;
}

function words(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const texts = value.filter((word): word is string => typeof word === "string" && /^[\w.-]+$/.test(word));
  return texts.length === value.length ? texts : undefined;
}

function hostName(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i.test(value)
    ? value.toLowerCase()
    : undefined;
}

function size(value: unknown): number | undefined {
  return typeof value === "string" || typeof value === "number" ? parseSize(value) : undefined;
}

function days(value: unknown): number | undefined {
  const parsed = typeof value === "string" ? parseDuration(value) : undefined;
  return parsed === undefined ? undefined : parsed / DAY;
}

const DAY = 86_400_000;

export type ParsedConfig =
  | {
      readonly ok: true;
      readonly values: FileConfig;
      /** Line of each key that the file sets, by its dotted path. */
      readonly lines: ReadonlyMap<string, number>;
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
