/** Merges flags, environment, config file and defaults into the settings in force, with the origin of each. */
import { namedInEnvironment } from "@holdfast/core/agent-environment";
import { resolve } from "node:path";
import type { OpenParams } from "../open.ts";
import { type KeepRule, RETENTION_PRESETS, type RetentionPolicy, storeRetention } from "@holdfast/core/retention";
import type { ErrorPolicy } from "@holdfast/core/error-policy";
import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { type FleetSettings, fleetEntries, mergeFleet } from "./fleet-settings.ts";
import type { FileConfig } from "./schema.ts";
import { resolvePlace, withoutPassword } from "@holdfast/postgres/store-url";
import { formatDuration, formatSize, givenValues } from "@holdfast/formats/setting-values";
import { DEFAULT_WORK, type WorkSettings, mergeWork, workEntries } from "./work-settings.ts";

export interface Settings {
  /** null: `holdfast` in the git common directory. */
  readonly store: string | null;
  /** null: no limit. */
  readonly maxStoreBytes: number | null;
  readonly retention: RetentionPolicy;
  readonly workspace: {
    readonly maxUntrackedBytes: number;
    readonly includeIgnored: boolean;
    readonly mainCheckout: "ask" | "report";
    /** null: next to the main worktree. */
    readonly worktrees: string | null;
    /** Commands that make a fresh worktree usable; null: none are configured. */
    readonly setup: readonly string[] | null;
    /** Files and patterns that are copied from the main checkout into the worktrees of runs. */
    readonly copy: readonly string[];
  };
  readonly gc: { readonly auto: boolean };
  /** The git remote that gets the files of runs; null: none. */
  readonly files: { readonly remote: string | null };
  readonly fleet: FleetSettings;
  readonly work: WorkSettings;
}

export type Origin =
  | { readonly kind: "default" }
  | { readonly kind: "file"; readonly line: number | null }
  | { readonly kind: "environment"; readonly variable: string }
  | { readonly kind: "flag"; readonly flag: string };

/** One line of `holdfast config`: a value as the file would have it, and its origin. */
export interface Setting {
  readonly key: string;
  readonly value: string | number | boolean | KeepRule;
  readonly origin: Origin;
}

export interface EffectiveConfig {
  /** The file that was read; null if there is none. */
  readonly path: string | null;
  readonly settings: Settings;
  readonly entries: readonly Setting[];
}

export interface ConfigLayers {
  readonly file: {
    readonly path: string;
    readonly directory: string;
    readonly values: FileConfig;
    readonly lines: ReadonlyMap<string, number>;
    /** The policy from the document that `errors.import` names. */
    readonly errors?: ErrorPolicy | null;
  } | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly storeFlag: string | undefined;
}

const DEFAULT_SETTINGS: Settings = {
  store: null,
  maxStoreBytes: null,
  retention: storeRetention,
  workspace: {
    maxUntrackedBytes: 20 * 1024 ** 2,
    includeIgnored: false,
    mainCheckout: "ask",
    worktrees: null,
    setup: null,
    copy: [],
  },
  gc: { auto: true },
  files: { remote: null },
  fleet: mergeFleet({}, null),
  work: DEFAULT_WORK,
};

/** For each key a flag takes precedence over the environment, then the file, then the default. */
export function mergeConfig(layers: ConfigLayers): EffectiveConfig {
  const values: FileConfig = layers.file?.values ?? {};
  const settings = mergeSettings(layers, values);
  const { retention, workspace } = settings;
  const shown: readonly (readonly [string, Setting["value"]])[] = [
    ["store", settings.store === null ? "(in the git directory)" : withoutPassword(settings.store)],
    ["store.maxSize", sizeText(settings.maxStoreBytes)],
    ["retention.preset", values.retention?.preset ?? "standard"],
    ...keepEntries(retention),
    ["retention.maxPerRun", retention.maxPerRun ?? "none"],
    ["retention.maxAge", daysText(retention.maxAgeDays)],
    ["retention.minRunAge", retention.minRunAgeDays == null ? "none" : daysText(retention.minRunAgeDays)],
    ["retention.onSuccess", retention.onSuccess],
    ["retention.onFailure", retention.onFailure],
    ["retention.recent", daysText(retention.recentDays)],
    ["retention.maxBytes", sizeText(retention.maxBytes)],
    ["workspace.maxUntrackedBytes", formatSize(workspace.maxUntrackedBytes)],
    ["workspace.includeIgnored", workspace.includeIgnored],
    ["workspace.mainCheckout", workspace.mainCheckout],
    ["workspace.worktrees", workspace.worktrees ?? "(next to the main worktree)"],
    ["workspace.setup", workspace.setup?.join(" && ") || "(none)"],
    ["workspace.copy", workspace.copy.join(", ") || "(none)"],
    ["gc.auto", settings.gc.auto],
    ["files.remote", settings.files.remote ?? "none"],
    [
      "fleet.dispatch",
      settings.fleet.dispatch === null ? "(beside the store)" : withoutPassword(settings.fleet.dispatch),
    ],
    ...fleetEntries(settings.fleet),
    ...workEntries(settings.work),
  ];
  const entries = shown.map(([key, value]) => ({ key, value, origin: originOf(layers, key) }));
  return { path: layers.file?.path ?? null, settings, entries };
}

/** The parameters for `openHoldfast`. */
export function openParamsOf(config: EffectiveConfig): Omit<OpenParams, "cwd" | "create"> {
  const { store, maxStoreBytes, retention, workspace, files, work } = config.settings;
  const { maxUntrackedBytes, includeIgnored, mainCheckout, worktrees, setup, copy } = workspace;
  return {
    ...(store === null ? {} : { store }),
    ...(maxStoreBytes === null ? {} : { maxStoreBytes }),
    ...(worktrees === null ? {} : { worktrees }),
    ...(files.remote === null ? {} : { filesRemote: files.remote }),
    retention,
    maxUntrackedBytes,
    includeIgnored,
    mainCheckout,
    ...(setup === null ? {} : { setup }),
    copy,
    forge: work.forge,
    agentIdleMs: work.agents.idleMs,
    checkpointEveryMs: work.agents.checkpointEveryMs,
    checkpoints: work.checkpoints,
    approve: work.approve,
    errorPolicy: work.errors,
    prices: work.prices,
    assumedTokens: work.assumedTokens,
    agentArgs: work.agents.args,
    agentEnv: work.agents.env,
    loopLayout: work.aiwg,
    loops: work.loops,
  };
}

/** A user's own rules apply at once, unless the user also sets the age from which they apply. */
function hasOwnRules(rules: NonNullable<FileConfig["retention"]>): boolean {
  const { preset, keep, maxPerRun, maxAge, onSuccess, onFailure, recent } = rules;
  return [preset, keep, maxPerRun, maxAge, onSuccess, onFailure, recent].some((rule) => rule !== undefined);
}

function mergeSettings(layers: ConfigLayers, values: FileConfig): Settings {
  const { workspace, gc } = DEFAULT_SETTINGS;
  const rules = values.retention ?? {};
  const retention = RETENTION_PRESETS[rules.preset ?? "standard"];
  const keep: Readonly<Record<string, KeepRule | undefined>> = rules.keep ?? {};
  const perTrigger: Partial<Record<Trigger, KeepRule>> = { ...retention.perTrigger };
  for (const trigger of TRIGGERS) {
    const rule = keep[trigger];
    if (rule !== undefined) perTrigger[trigger] = rule;
  }
  const directory = layers.file?.directory ?? layers.cwd;
  const worktrees = values.workspace?.worktrees;
  const work = mergeWork(values, directory, layers.file?.errors ?? null);
  return {
    store: storeOf(layers, values),
    maxStoreBytes: typeof values.store === "object" ? values.store.maxSize : null,
    retention: {
      ...retention,
      perTrigger,
      defaultKeep: keep["default"] ?? retention.defaultKeep,
      minRunAgeDays: hasOwnRules(rules) ? null : (retention.minRunAgeDays ?? null),
      ...givenValues({
        maxPerRun: rules.maxPerRun,
        maxAgeDays: rules.maxAge,
        minRunAgeDays: rules.minRunAge,
        onSuccess: rules.onSuccess,
        onFailure: rules.onFailure,
        recentDays: rules.recent,
        maxBytes: rules.maxBytes,
      }),
    },
    workspace: {
      ...workspace,
      ...givenValues(values.workspace ?? {}),
      worktrees: worktrees === undefined ? workspace.worktrees : resolve(directory, worktrees),
    },
    gc: { auto: values.gc?.auto ?? gc.auto },
    files: { remote: values.files?.remote ?? null },
    fleet: mergeFleet(values.fleet, dispatchOf(layers, values)),
    work: { ...work, agents: { ...work.agents, env: namedInEnvironment(layers.env) ?? work.agents.env } },
  };
}

function storeOf(layers: ConfigLayers, values: FileConfig): string | null {
  if (layers.storeFlag !== undefined) return resolvePlace(layers.cwd, layers.storeFlag, "--store");
  const variable = layers.env["HOLDFAST_STORE"];
  if (variable !== undefined && variable !== "") return resolvePlace(layers.cwd, variable, "HOLDFAST_STORE");
  const path = typeof values.store === "object" ? values.store.path : values.store;
  if (path === undefined || path === null) return null;
  return resolvePlace(layers.file?.directory ?? layers.cwd, path, sourceIn(layers, "store"));
}

function dispatchOf(layers: ConfigLayers, values: FileConfig): string | null {
  const { env, cwd, file } = layers;
  const variable = env["HOLDFAST_DISPATCH"];
  if (variable !== undefined && variable !== "") return resolvePlace(cwd, variable, "HOLDFAST_DISPATCH");
  const named = values.fleet?.dispatch;
  if (named === undefined) return null;
  return resolvePlace(file?.directory ?? cwd, named, sourceIn(layers, "fleet.dispatch"));
}

function sourceIn({ file }: ConfigLayers, key: string): string {
  return file === null ? key : `${key} in ${file.path}`;
}

function originOf({ file, env, storeFlag }: ConfigLayers, key: string): Origin {
  if (key === "store" && storeFlag !== undefined) return { kind: "flag", flag: "--store" };
  if (key === "store" && (env["HOLDFAST_STORE"] ?? "") !== "")
    return { kind: "environment", variable: "HOLDFAST_STORE" };
  if (key === "fleet.dispatch" && (env["HOLDFAST_DISPATCH"] ?? "") !== "")
    return { kind: "environment", variable: "HOLDFAST_DISPATCH" };
  if (key === "agents.env" && namedInEnvironment(env) !== undefined)
    return { kind: "environment", variable: "HOLDFAST_AGENT_ENV" };
  const line = file?.lines.get(key);
  return line === undefined ? { kind: "default" } : { kind: "file", line };
}

function keepEntries(policy: RetentionPolicy): readonly (readonly [string, Setting["value"]])[] {
  const rules = TRIGGERS.map((trigger) => [trigger, policy.perTrigger[trigger]] as const);
  return [...rules, ["default", policy.defaultKeep] as const].flatMap(([name, rule]) =>
    rule === undefined ? [] : [[`retention.keep.${name}`, rule.per === "run" ? rule.keep : rule] as const],
  );
}

function sizeText(bytes: number | null): string {
  return bytes === null ? "none" : formatSize(bytes);
}

function daysText(days: number | null): string {
  return days === null ? "never" : formatDuration(days * 86_400_000);
}
