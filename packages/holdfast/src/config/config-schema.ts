import * as z from "zod/mini";
import { parseAgentArgs } from "../core/agent/agent-args.ts";
import { parseEnvironmentNames } from "../core/agent/agent-environment.ts";
import { EXECUTION_MODES } from "../core/run/execution-mode.ts";
import { FORMAT_NAMES } from "../core/format-names.ts";
import type { Price, PriceTable } from "../core/position/price.ts";
import { asRecord, isRecord } from "../core/record.ts";
import type { KeepRule } from "../core/retention/retention.ts";
import { TRIGGERS } from "../core/checkpoint/trigger.ts";
import { milliseconds, money } from "./amount.ts";
import { errorSchema } from "./errors/error-schema.ts";
import { choice, count, leaf, model, nonEmpty, whole, yesOrNo } from "./leaf.ts";
import { MODEL } from "./model-name.ts";
import { parseDuration } from "./parse-duration.ts";
import { parseSize } from "./parse-size.ts";
import type { DIMENSIONS } from "./work-settings.ts";

const ENV_NAMES =
  "a list of names of variables, or of PREFIX_*, such as [DATABASE_URL, MYAPP_*]; GIT_* and HOLDFAST_* are never passed";
const ARGS =
  'arguments by agent, such as { codex: ["--sandbox", "read-only"] }, without those that Holdfast gives itself (model, session, prompt, output)';

/** What may stand in holdfast.config.yaml. Everything is optional: an absent key has its default. */
export const configSchema = z.strictObject({
  store: z.optional(leaf("a directory", nonEmpty)),
  retention: z.optional(
    z.strictObject({
      preset: z.optional(choice(["standard", "loops"])),
      keep: z.optional(z.strictObject(keepShape())),
      maxPerRun: z.optional(atLeastOrNone(0)),
      maxAge: z.optional(
        leaf('a duration such as 30d, or "never"', (value) => (value === "never" ? null : days(value))),
      ),
      minRunAge: z.optional(
        leaf('a duration such as 30d, or "none"', (value) => (value === "none" ? null : days(value))),
      ),
      onSuccess: z.optional(choice(["keep_latest", "latest_only", "by_rules"])),
      onFailure: z.optional(choice(["keep_recent", "by_rules"])),
      recent: z.optional(leaf("a duration such as 7d", days)),
      maxBytes: z.optional(leaf('a size such as 5GB, or "none"', (value) => (value === "none" ? null : size(value)))),
      compressAfter: z.optional(
        leaf('a duration such as 7d, or "never"', (value) => (value === "never" ? null : days(value))),
      ),
    }),
  ),
  workspace: z.optional(
    z.strictObject({
      maxUntrackedBytes: z.optional(leaf("a size such as 20MB", size)),
      includeIgnored: z.optional(yesOrNo()),
      mainCheckout: z.optional(choice(["ask", "report"])),
      worktrees: z.optional(leaf("a directory", nonEmpty)),
    }),
  ),
  gc: z.optional(z.strictObject({ auto: z.optional(yesOrNo()) })),
  agent: z.optional(model()),
  mode: z.optional(choice(EXECUTION_MODES)),
  models: z.optional(z.strictObject({ impl: z.optional(model()), review: z.optional(model()) })),
  agents: z.optional(
    z.strictObject({
      maxIdle: z.optional(
        leaf('a duration such as 30m, or "none"', (value) => (value === "none" ? null : milliseconds(value))),
      ),
      checkpointEvery: z.optional(
        leaf('a duration such as 10m, or "none"', (value) => (value === "none" ? null : milliseconds(value))),
      ),
      args: z.optional(leaf(ARGS, parseAgentArgs)),
      env: z.optional(leaf(ENV_NAMES, parseEnvironmentNames)),
    }),
  ),
  forge: z.optional(
    z.strictObject({
      kind: z.optional(choice(["auto", "local", "github", "gitlab", "none"])),
      path: z.optional(leaf("a directory", nonEmpty)),
      host: z.optional(leaf("a host such as ghe.example.com", hostName)),
    }),
  ),
  impl: z.optional(
    z.strictObject({
      maxIterations: z.optional(count(1)),
      maxReviews: z.optional(count(1)),
      onMaxReviews: z.optional(choice(["proceed", "fatal"])),
      review: z.optional(yesOrNo()),
      simplify: z.optional(yesOrNo()),
      yolo: z.optional(yesOrNo()),
      waitForCi: z.optional(yesOrNo()),
      heedReviews: z.optional(yesOrNo()),
      draft: z.optional(yesOrNo()),
      afterRebase: z.optional(choice(["review", "impl"])),
      gate: z.optional(leaf("a shell command", nonEmpty)),
      base: z.optional(leaf("a branch name", nonEmpty)),
      prompts: z.optional(z.strictObject({ impl: file(), review: file(), simplify: file(), rebase: file() })),
      tags: z.optional(leaf("a list of words such as [feat, bugfix]", words)),
      thresholds: z.optional(z.strictObject(thresholdShape())),
    }),
  ),
  ralph: z.optional(
    z.strictObject({
      until: z.optional(leaf("a shell command, or a list of them", commands)),
      untilTimeout: z.optional(leaf("a duration such as 10m", milliseconds)),
      firstCheck: z.optional(yesOrNo()),
      maxIterations: z.optional(count(1)),
      memory: z.optional(
        leaf("a whole number from 1 to 10", (value) => (Number(value) > 10 ? undefined : whole(value, 1))),
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
  loops: z.optional(
    z.strictObject({
      max: z.optional(atLeastOrNone(1)),
      workflows: z.optional(leaf("a list of workflows such as [ralph, impl]", words)),
    }),
  ),
  mirror: z.optional(
    z.strictObject({
      format: z.optional(
        leaf(`one of ${FORMAT_NAMES.join(", ")}, or "none"`, (value) =>
          value === "none" ? null : FORMAT_NAMES.find((name) => name === value),
        ),
      ),
      directory: z.optional(leaf("a directory", nonEmpty)),
    }),
  ),
  aiwg: z.optional(
    z.strictObject({
      mirror: z.optional(yesOrNo()),
      directory: z.optional(leaf("a directory", nonEmpty)),
      keep: z.optional(count(0)),
      maxAge: z.optional(
        leaf('a duration such as 30d, or "never"', (value) => (value === "never" ? null : days(value))),
      ),
      onSuccess: z.optional(choice(["keep_latest", "by_rules"])),
      onFailure: z.optional(choice(["keep_all_recent", "by_rules"])),
    }),
  ),
  prices: z.optional(
    leaf('prices by provider:model, such as { "codex:gpt-5": { input: 1.25, cached: 0.125, output: 10 } }', prices),
  ),
  budget: z.optional(
    z.strictObject({
      maxTokens: z.optional(leaf('a number from 1, or "none"', (value) => (value === "none" ? null : whole(value, 1)))),
      maxCost: z.optional(
        leaf('US dollars such as 2.50, or "none"', (value) => (value === "none" ? null : money(value))),
      ),
      maxTime: z.optional(
        leaf('a duration such as 2h, or "none"', (value) => (value === "none" ? null : milliseconds(value))),
      ),
    }),
  ),
});

export type FileConfig = z.output<typeof configSchema>;

function commands(value: unknown): readonly string[] | undefined {
  const all = Array.isArray(value) ? value : [value];
  const texts = all.flatMap((one) => nonEmpty(one) ?? []);
  return texts.length === all.length && texts.length > 0 ? texts : undefined;
}

function keepShape() {
  const keep = z.optional(keepRule());
  const triggers = TRIGGERS.map((trigger) => [trigger, keep] as const);
  return { ...Object.fromEntries(triggers), default: keep };
}

function keepRule() {
  return leaf('how many to keep: a number, "all", or { keep: 5, per: stage }', (value) => {
    if (typeof value !== "object" || value === null) return ruleOf(value, "run");
    const extra = Object.keys(value).find((key) => key !== "keep" && key !== "per");
    if (extra !== undefined || !("keep" in value)) return undefined;
    return ruleOf(value.keep, "per" in value ? value.per : "run");
  });
}

function ruleOf(keep: unknown, per: unknown): KeepRule | undefined {
  if (per !== "run" && per !== "stage") return undefined;
  if (keep === "all") return { keep, per };
  return typeof keep === "number" && Number.isSafeInteger(keep) && keep >= 0 ? { keep, per } : undefined;
}

function thresholdShape(): Record<(typeof DIMENSIONS)[number], ReturnType<typeof percent>> {
  return { faithful: percent(), style: percent(), docs: percent(), cornerCases: percent() };
}

function file() {
  return z.optional(leaf("a file", nonEmpty));
}

function percent() {
  return z.optional(
    leaf("a score from 0 to 100", (value) => {
      const score = whole(value, 0);
      return score !== undefined && score <= 100 ? score : undefined;
    }),
  );
}

/** US dollars for a million tokens; what a cache gave costs as much as the rest unless it is said. */
function prices(value: unknown): PriceTable | undefined {
  if (!isRecord(value)) return undefined;
  const table: Record<string, Price> = {};
  for (const [name, price] of Object.entries(value)) {
    const { input, output, cached = input, ...rest } = asRecord(price);
    if (!MODEL.test(name) || Object.keys(rest).length > 0) return undefined;
    if (!isPrice(input) || !isPrice(cached) || !isPrice(output)) return undefined;
    table[name] = { input, cached, output };
  }
  return table;
}

function isPrice(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 && value <= 1_000_000;
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

function atLeastOrNone(least: number) {
  return leaf(`a number from ${least}, or "none"`, (value) => (value === "none" ? null : whole(value, least)));
}
