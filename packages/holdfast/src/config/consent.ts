/**
 * Defines which settings of a repository need the user's consent, and why. A repository is untrusted until its user
 * consents. The settings of a clone alone must not run a command, raise an agent's rights, change a prompt, capture
 * more files or write outside the repository.
 */
import { isUtf8 } from "node:buffer";
import { readFileSync, statSync } from "node:fs";
import { isAbsolute, relative, resolve } from "node:path";
import { AGENT_PROGRAMS, splitAgent } from "@holdfast/core/agent";
import { canonicalJson } from "@holdfast/core/values";
import { isRecord, sha256 } from "@holdfast/core/json";
import { BUILT_IN_NAMES, type BuiltInName } from "@holdfast/workflows/built-in";
import type { FileConfig } from "./schema.ts";

/**
 * Why a setting needs consent. It runs something, or an agent loads it and it can start programs. It raises an agent's
 * rights, changes a prompt or captures more files. Or it writes outside, sends a login or files, or distorts a limit.
 */
export type Danger =
  | "executes"
  | "loads"
  | "rights"
  | "prompt"
  | "captures"
  | "outside"
  | "sends"
  | "sends_files"
  | "spends";

/**
 * When a setting takes effect: on every save, whenever agents work, when any run starts, or when a run of this workflow
 * starts.
 */
export type Use = "store" | "save" | "work" | "start" | BuiltInName;

/** One setting of the repository that needs consent. */
export interface ConsentItem {
  /** Dotted key, or the path of a whole file. */
  readonly key: string;
  /** The value from the file; null if a whole file is the setting. */
  readonly value: unknown;
  readonly danger: Danger;
  /** Absolute path of the file that sets it. */
  readonly file: string;
  readonly line: number;
  /**
   * Files whose content is part of the digest: a whole file itself, files that it imports or names, a prompt file that
   * a value names.
   */
  readonly files: readonly FileText[];
  readonly uses: readonly Use[];
  /** Digest of key, value and files. The user consents to this digest. */
  readonly digest: string;
}

export interface FileText {
  /** Relative to the repository or the worktree, so that the same content has the same digest in both. */
  readonly name: string;
  readonly text: string;
}

interface Rule {
  readonly danger: Danger;
  readonly uses: readonly Use[];
  /** Absent: any value needs consent. */
  readonly when?: (value: unknown) => boolean;
  /** Paths of the files whose content belongs to the setting, relative to the config file. */
  readonly files?: (value: unknown) => readonly string[];
}

/** Every key has its own class: a new key of the schema, at any depth, does not compile until it is classified here. */
type Rules<T> = {
  readonly [K in keyof T]-?: K extends KeyedByTrigger
    ? "harmless"
    : IsGroup<NonNullable<T[K]>> extends true
      ? Rules<NonNullable<T[K]>>
      : Rule | "harmless";
};
/** `retention.keep` is keyed by trigger. The schema builds its keys from a list, which the type does not show. */
type KeyedByTrigger = "keep";
/**
 * A group of settings has named keys that are all optional. A value that is an object has required keys, or arbitrary
 * ones.
 */
type IsGroup<T> = T extends readonly unknown[]
  ? false
  : T extends object
    ? string extends keyof T
      ? false
      : Partial<T> extends T
        ? true
        : false
    : false;

const STARTS = BUILT_IN_NAMES;
const agentRule = (uses: readonly Use[]): Rule => ({
  danger: "executes",
  uses,
  when: (value) => asList(value).some((named) => !isPlainAgent(named)),
});
const place = (uses: readonly Use[]): Rule => ({ danger: "outside", uses });
const prompt: Rule = { danger: "prompt", uses: ["impl"], files: asList };

const RULES: Rules<FileConfig> = {
  // A prepared store can hold runs with their own commands, so a store inside the repository needs consent too.
  store: { ...place(["store", "save", "work"]), when: (value) => !isRecord(value) || value["path"] !== null },
  // Retention drops only data of the repository's own store, and never the newest checkpoint.
  retention: {
    preset: "harmless",
    keep: "harmless",
    maxPerRun: "harmless",
    maxAge: "harmless",
    minRunAge: "harmless",
    onSuccess: "harmless",
    onFailure: "harmless",
    recent: "harmless",
    maxBytes: "harmless",
  },
  workspace: {
    maxUntrackedBytes: {
      danger: "captures",
      uses: ["save", "work"],
      when: (value) => typeof value !== "number" || value > 20 * 1024 ** 2,
    },
    includeIgnored: { danger: "captures", uses: ["save", "work"], when: isNot(false) },
    // Other values let an agent change the user's checkout without a question.
    mainCheckout: { danger: "rights", uses: ["work"], when: isNot("ask") },
    worktrees: place(["save", "work"]),
    setup: { danger: "executes", uses: ["work"], when: (value) => asList(value).length > 0 },
    // They are files that the repository does not have, and the agent gets to read them.
    copy: { danger: "rights", uses: ["work"], when: (value) => asList(value).length > 0 },
  },
  gc: { auto: "harmless" },
  // The remote gets the files of every checkpoint, also those that no commit has.
  files: { remote: { danger: "sends_files", uses: ["save", "work"], when: isNot(null) } },
  fleet: {
    // It gets the names of runs, and decides which of this repository's own runs work.
    dispatch: place(["store", "save", "work"]),
    perQueue: "harmless",
    perRepository: "harmless",
    queues: "harmless",
    repositories: "harmless",
    agents: "harmless",
    queueOf: "harmless",
  },
  agent: agentRule(["start"]),
  mode: "harmless",

  models: { impl: agentRule(["impl"]), review: agentRule(["impl"]) },
  agents: {
    maxIdle: "harmless",
    checkpointEvery: "harmless",
    args: { danger: "rights", uses: ["work"] },
    env: { danger: "rights", uses: ["work"] },
  },
  forge: {
    kind: { danger: "sends", uses: ["work"], when: (value) => value !== "auto" && value !== "none" },
    path: place(["work"]),
    host: { danger: "sends", uses: ["work"] },
  },
  impl: {
    maxIterations: "harmless",
    maxReviews: "harmless",
    onMaxReviews: "harmless",
    limits: {
      prAttempts: "harmless",
      rebases: "harmless",
      parseFailures: "harmless",
      reviewFailures: "harmless",
      stuck: "harmless",
      simplifications: "harmless",
    },
    review: "harmless",
    simplify: "harmless",
    yolo: { danger: "rights", uses: STARTS, when: isNot(false) },
    waitForCi: "harmless",
    applyReviews: "harmless",
    draft: "harmless",
    attribution: "harmless",
    afterRebase: "harmless",
    gate: { danger: "executes", uses: ["impl", "crunch"] },
    // It decides when the gate runs, not what runs.
    baseGate: "harmless",
    // A name that git could take for an option is not a branch. A branch is harmless: before each call, the files of it
    // that an agent would execute are compared with the consents.
    base: {
      danger: "executes",
      uses: STARTS,
      when: (value) => typeof value !== "string" || !/^\w[\w./-]*$/.test(value),
    },
    prompts: { impl: prompt, review: prompt, simplify: prompt, rebase: prompt, continue: prompt },
    // Tags become part of the prompt.
    tags: { danger: "prompt", uses: ["impl"] },
    thresholds: { faithful: "harmless", style: "harmless", docs: "harmless", cornerCases: "harmless" },
  },
  ralph: {
    until: { danger: "executes", uses: ["ralph"] },
    untilTimeout: "harmless",
    firstCheck: "harmless",
    maxIterations: "harmless",
    memory: "harmless",
    memoryPolicy: "harmless",
    onStuck: "harmless",
    detection: { stuck: "harmless", oscillation: "harmless", regression: "harmless", burn: "harmless" },
    quality: {
      validation: "harmless",
      completeness: "harmless",
      correctness: "harmless",
      readability: "harmless",
      efficiency: "harmless",
    },
    tokensPerIteration: "harmless",
  },
  errors: {
    // The imported document may name fallback agents.
    import: { danger: "executes", uses: ["work"], files: asList },
    retry: {
      max: "harmless",
      delay: "harmless",
      multiplier: "harmless",
      maxDelay: "harmless",
      jitter: "harmless",
    },
    exhausted: "harmless",
    // No flag replaces it, so --agent would not keep other agents from starting. It therefore always needs consent.
    fallback: { agents: { ...agentRule(["work"]), when: () => true }, tries: "harmless" },
    rules: "harmless",
  },
  // It only adds questions.
  approve: "harmless",
  checkpoints: { artifactComplete: "harmless", beforeExternal: "harmless", beforeRisky: "harmless" },
  loops: { max: "harmless", workflows: "harmless" },
  mirror: { format: "harmless", directory: place(["save", "work"]) },
  // The place is fixed: the directories of the other tools in the main worktree.
  layout: "harmless",
  aiwg: {
    mirror: "harmless",
    directory: place(["save", "work"]),
    keep: "harmless",
    maxAge: "harmless",
    onSuccess: "harmless",
    onFailure: "harmless",
  },
  prices: { danger: "spends", uses: ["work"] },
  budget: {
    maxTokens: "harmless",
    maxCost: "harmless",
    maxTime: "harmless",
    assumedTokens: { danger: "spends", uses: ["work"] },
  },
};

/** Flags of `run` and `resume` that replace a setting. A setting that a flag replaces needs no consent. */
export const REPLACED_BY: Readonly<Record<string, readonly string[]>> = {
  agent: ["agent"],
  "models.impl": ["agent", "impl-model", "backend"],
  "models.review": ["agent", "review-model"],
  "impl.yolo": ["yolo", "no-yolo"],
  "impl.gate": ["gate"],
  "impl.base": ["base"],
  "ralph.until": ["until"],
};

export interface ConfigFile {
  readonly path: string;
  readonly directory: string;
  readonly values: FileConfig;
  readonly lines: ReadonlyMap<string, number>;
}

/** The settings of a config file that need consent. */
export function consentItems(file: ConfigFile, root: string): readonly ConsentItem[] {
  const name = relative(root, file.path);
  return ruled(file.values).flatMap(({ key, value, rule }) => {
    if (rule.when?.(value) === false) return [];
    const files = (rule.files?.(value) ?? []).flatMap((path) => {
      const text = textOf(resolve(file.directory, path));
      return text === undefined ? [] : [{ name: path, text }];
    });
    const { danger, uses } = rule;
    const line = file.lines.get(key) ?? 1;
    return [{ key, value, danger, uses, file: file.path, line, files, digest: digestOf({ name, key, value, files }) }];
  });
}

/** A whole file that needs consent by its bytes, together with the bytes of the files that it uses. */
export function fileItem(params: {
  readonly path: string;
  /** The repository, or one of its worktrees. */
  readonly root: string;
  readonly text: string;
  readonly more?: readonly FileText[];
  readonly danger: Danger;
  readonly uses: readonly Use[];
}): ConsentItem {
  const { path, root, text, danger, uses, more = [] } = params;
  const inside = relative(root, path);
  const key = inside.startsWith("..") || isAbsolute(inside) ? path : inside;
  const files = [{ name: key, text }, ...more];
  const digest = digestOf({ name: key, key, value: null, files });
  return { key, value: null, danger, uses, file: path, line: 1, files, digest };
}

/** Settings of an imported document, which the user did not type. */
export function documentItem(params: {
  readonly key: string;
  readonly value: unknown;
  readonly file: string;
}): ConsentItem {
  const digest = digestOf({ name: "", key: params.key, value: params.value, files: [] });
  return { ...params, danger: "executes", line: 1, files: [], uses: ["work"], digest };
}

/** The digest that `HOLDFAST_TRUST` names for all settings of a repository that need consent. */
export function overallDigest(items: readonly ConsentItem[]): string {
  return sha256(canonicalJson(["holdfast-trust-1", items.map(({ digest }) => digest).toSorted()])).slice(0, 32);
}

/**
 * The digest that `HOLDFAST_TRUST` names for a single item that is not a setting of the checkout: a changed workflow
 * file, a file of a run's worktree.
 */
export function ownDigest(item: ConsentItem): string {
  return overallDigest([item]);
}

/** The same file without the settings that may not take effect. */
export function withoutKeys(values: FileConfig, keys: ReadonlySet<string>): FileConfig {
  // Pruning only removes keys, and every key of the schema is optional, so the result is still a FileConfig.
  return prune(values, "", keys) as FileConfig;
}

function prune(value: object, path: string, keys: ReadonlySet<string>): object {
  const kept = Object.entries(value).filter(([name]) => !keys.has(path + name));
  const prefixes = [...keys];
  return Object.fromEntries(
    kept.map(([name, inner]: [string, unknown]) =>
      typeof inner === "object" && inner !== null && prefixes.some((key) => key.startsWith(`${path}${name}.`))
        ? [name, prune(inner, `${path}${name}.`, keys)]
        : [name, inner],
    ),
  );
}

interface Ruled {
  readonly key: string;
  readonly value: unknown;
  readonly rule: Rule;
}

/** Every value that the file sets, with its rule. A key without a class needs consent. */
function ruled(values: object, rules: object = RULES, path = ""): readonly Ruled[] {
  const classes = new Map<string, unknown>(Object.entries(rules));
  return Object.entries(values).flatMap(([name, value]: [string, unknown]): readonly Ruled[] => {
    if (value === undefined) return [];
    const key = path + name;
    const found = classes.get(name);
    if (found === "harmless") return [];
    if (isRule(found)) return [{ key, value, rule: found }];
    if (isRecord(found) && isRecord(value)) return ruled(value, found, `${key}.`);
    return [{ key, value, rule: UNKNOWN }];
  });
}

const UNKNOWN: Rule = { danger: "executes", uses: ["store", "save", "work"] };

function isRule(value: unknown): value is Rule {
  return isRecord(value) && typeof value["danger"] === "string" && Array.isArray(value["uses"]);
}

function digestOf(of: {
  readonly name: string;
  readonly key: string;
  readonly value: unknown;
  readonly files: readonly FileText[];
}): string {
  // Parsed values are JSON, except for compiled patterns, and no setting with a rule has one.
  const value = JSON.stringify(of.value) ?? "";
  const files = of.files.map(({ name, text }) => [name, sha256(text)]);
  return sha256(canonicalJson(["holdfast-setting-2", of.name, of.key, value, files]));
}

/** A program that its maker distributes, with a model name that cannot be taken for an option. */
function isPlainAgent(named: string): boolean {
  const { provider, model } = splitAgent(named);
  return AGENT_PROGRAMS.includes(provider) && (model === null || /^\w[\w.:/@[\]-]*$/.test(model));
}

/** Agents that settings name. Plain agents (see `isPlainAgent`) need no consent and are not among the items. */
export function agentsNamedBy(items: readonly ConsentItem[]): readonly string[] {
  return items.filter(({ key }) => AGENT_KEYS.has(key)).flatMap(({ value }) => asList(value));
}

const AGENT_KEYS: ReadonlySet<string> = new Set(["agent", "models.impl", "models.review", "errors.fallback.agents"]);

/**
 * Follows links, as any user of the file does. For a binary or very large file it returns only size and digest.
 * undefined: the file does not exist.
 */
export function textOf(path: string): string | undefined {
  try {
    if (!statSync(path).isFile()) return undefined;
    const bytes = readFileSync(path);
    if (isUtf8(bytes) && bytes.length <= MAX_BYTES) return bytes.toString("utf8");
    return `(${bytes.length} bytes with the SHA-256 digest ${sha256(bytes)})`;
  } catch {
    return undefined;
  }
}

const MAX_BYTES = 16 * 1024 ** 2;

function asList(value: unknown): readonly string[] {
  return (Array.isArray(value) ? value : [value]).map(String);
}

function isNot(harmless: unknown): (value: unknown) => boolean {
  return (value) => value !== harmless;
}
