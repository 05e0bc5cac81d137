// Reads crunch's `.claude/checkpoint-config.yaml`: triggers, retention and location of its checkpoints.

import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { type KeepRule, type RetentionPolicy, defaultRetention } from "@holdfast/core/retention";
import { HoldfastError } from "@holdfast/platform/error";
import { decodeTrigger, readCrunch } from "./crunch-document.ts";
import { field, invalidDocument } from "./document.ts";
import type { ExternalFile, Remark } from "./format.ts";

/** `.claude/checkpoint-config.yaml` in Holdfast's terms. */
export interface CrunchConfig {
  readonly enabled: boolean;
  /** For each trigger, whether a checkpoint is taken and whether it is shown. */
  readonly triggers: CrunchTriggers;
  readonly retention: RetentionPolicy;
  /** Relative path, optionally with `{issue}`; see `crunchLocation`. */
  readonly location: string;
  readonly compress: boolean;
  readonly remarks: readonly Remark[];
}

const MEGABYTE = 1024 * 1024;
const KEYS = {
  "": ["checkpoint"],
  "/checkpoint": ["enabled", "auto_checkpoint", "checkpoint_triggers", "retention", "storage"],
  "/checkpoint/storage": ["location", "compress", "max_size_mb"],
} as const;

/** A missing key has the value of crunch's own example. Throws FORMAT_INVALID for an impossible value. */
export function parseCrunchConfig(file: ExternalFile): CrunchConfig {
  const { document, remarks: read, source, lineOf } = readCrunch(file);
  const remarks: Remark[] = [...read];
  const fail = (path: string, why: string): HoldfastError =>
    invalidDocument(source, { path, why, ...(lineOf === null ? {} : { line: lineOf(path) }) });
  const reader = new FieldReader(fail);
  const root = reader.object(document, "checkpoint", "");
  const storage = reader.object(root, "storage", "/checkpoint");
  for (const [path, keys] of Object.entries(KEYS)) {
    const object = path === "" ? document : path === "/checkpoint" ? root : storage;
    for (const key of Object.keys(object)) {
      if (!keys.some((known) => known === key)) remarks.push({ path: `${path}/${key}`, text: "is not known: ignored" });
    }
  }
  const location = reader.text(storage, "location", "/checkpoint/storage") ?? ".claude/crunch/{issue}/checkpoints";
  const bad = locationProblem(location);
  if (bad !== null) throw fail("/checkpoint/storage/location", bad);
  const compress = reader.flag(storage, "compress", "/checkpoint/storage") ?? false;
  const megabytes = reader.number(storage, "max_size_mb", "/checkpoint/storage") ?? 50;
  if (megabytes < 0) throw fail("/checkpoint/storage/max_size_mb", "there is a size below 0");
  const automatic = reader.flag(root, "auto_checkpoint", "/checkpoint") ?? true;
  const enabled = reader.flag(root, "enabled", "/checkpoint") ?? true;
  return {
    enabled,
    triggers: crunchTriggers({ enabled, automatic, on: switchesOf(reader, root, remarks) }),
    retention: {
      ...defaultRetention,
      perTrigger: keepsOf(reader, root, remarks),
      // Checkpoints without a rule are all kept.
      defaultKeep: { keep: "all", per: "run" },
      maxPerRun: null,
      // Crunch has only counts: nothing is dropped by age or because a run has ended.
      maxAgeDays: null,
      onSuccess: "by_rules",
      onFailure: "by_rules",
      maxBytes: Math.round(megabytes * MEGABYTE),
    },
    location,
    compress,
    remarks,
  };
}

/** The values of crunch's own example, which apply without a file. */
export function defaultCrunchConfig(): CrunchConfig {
  return parseCrunchConfig({
    path: "checkpoint-config.yaml",
    bytes: UTF8.encode("checkpoint: {}\n"),
    compression: "none",
  });
}

const UTF8 = new TextEncoder();

/** The directory of an issue's checkpoints, relative to the repository. */
export function crunchLocation(template: string, issue: number | null): string {
  const problem = locationProblem(template);
  if (problem !== null)
    throw new HoldfastError({ code: "USAGE", message: `"${template}" is not a valid location: ${problem}` });
  return template.replaceAll(/\{issue(?:_number)?\}/g, issue === null ? "none" : String(issue));
}

/** The location comes from a cloned repository, so it must not lead out of that repository. */
function locationProblem(template: string): string | null {
  if (template.trim() === "" || template.includes("\0")) return "it is empty";
  if (/^[/\\~]|^[A-Za-z]:/.test(template)) return "it is outside the repository";
  const parts = template.split(/[/\\]/);
  if (parts.includes("..")) return "it is outside the repository";
  if (parts.some((part) => part.toLowerCase() === ".git")) return "it is inside .git";
  const unknown = template.replaceAll(/\{issue(?:_number)?\}/g, "");
  return /[{}]/.test(unknown) ? "there is a placeholder other than {issue}" : null;
}

/** `conflict_events` sets both conflict triggers; a setting for one of them takes precedence. */
function switchesOf(reader: FieldReader, root: JsonObject, remarks: Remark[]): TriggerSwitches["on"] {
  const path = "/checkpoint/checkpoint_triggers";
  const given = reader.object(root, "checkpoint_triggers", "/checkpoint");
  const events = reader.flag(given, "conflict_events", path);
  const switches: Partial<Record<Trigger, boolean>> = {
    ...DEFAULT_SWITCHES.on,
    ...(events === null ? {} : { conflict_start: events, conflict_resolved: events }),
  };
  for (const word of Object.keys(given)) {
    if (word === "conflict_events") continue;
    const on = reader.flag(given, word, path);
    const trigger = decodeTrigger(word);
    if (trigger === undefined) remarks.push({ path: `${path}/${word}`, text: "is not a known trigger: ignored" });
    else if (on !== null) switches[trigger] = on;
  }
  return switches;
}

const DEFAULT_KEEPS: Readonly<Record<string, number>> = {
  phase_transition: -1,
  batch_complete: 3,
  agent_complete: 1,
  conflict_resolved: -1,
  user_interrupt: 1,
  manual: -1,
  // Crunch has no rule for these two. The start of a conflict belongs to the same audit trail as its end, and a
  // session's end is an interrupt by the clock.
  conflict_start: -1,
  session_end: 1,
  // Holdfast's own triggers are safety nets, of which the newest is enough.
  automatic: 1,
  iteration: 1,
  artifact_complete: 1,
  before_risky: 1,
  before_external: 1,
  error_recovery: 1,
  timer: 1,
  before_restore: 1,
  restore: 1,
};

/** Crunch counts these per phase, and all others per run. */
const PER_PHASE: ReadonlySet<Trigger> = new Set(["stage", "batch_complete", "agent_complete"]);

/**
 * -1 keeps all and 0 keeps none, except the newest and the newest resumable checkpoint. Crunch's own program treats
 * these values almost the opposite way.
 */
function keepsOf(reader: FieldReader, root: JsonObject, remarks: Remark[]): Partial<Record<Trigger, KeepRule>> {
  const path = "/checkpoint/retention";
  const given = reader.object(root, "retention", "/checkpoint");
  const keeps: Partial<Record<Trigger, KeepRule>> = {};
  for (const word of new Set([...Object.keys(DEFAULT_KEEPS), ...Object.keys(given)])) {
    const number = reader.number(given, word, path) ?? DEFAULT_KEEPS[word] ?? -1;
    if (!Number.isSafeInteger(number) || number < -1) {
      throw reader.fail(`${path}/${word}`, `there is ${number} where a count belongs, or -1 for all`);
    }
    const trigger = decodeTrigger(word);
    if (trigger === undefined) remarks.push({ path: `${path}/${word}`, text: "is not a known trigger: ignored" });
    else keeps[trigger] = { keep: number === -1 ? "all" : number, per: PER_PHASE.has(trigger) ? "stage" : "run" };
  }
  return keeps;
}

/** Reads members by name. An empty member counts as missing; a member of another type is rejected with its path. */
class FieldReader {
  readonly fail: (path: string, why: string) => HoldfastError;

  constructor(fail: (path: string, why: string) => HoldfastError) {
    this.fail = fail;
  }

  object(parent: JsonObject, key: string, path: string): JsonObject {
    return this.#member(parent, key, path, (value) => (isJsonObject(value) ? value : undefined), "a mapping") ?? {};
  }

  flag(parent: JsonObject, key: string, path: string): boolean | null {
    return this.#member(
      parent,
      key,
      path,
      (value) => (typeof value === "boolean" ? value : undefined),
      "true or false",
    );
  }

  number(parent: JsonObject, key: string, path: string): number | null {
    return this.#member(parent, key, path, (value) => (typeof value === "number" ? value : undefined), "a number");
  }

  text(parent: JsonObject, key: string, path: string): string | null {
    return this.#member(parent, key, path, (value) => (typeof value === "string" ? value : undefined), "a text");
  }

  #member<T>(
    parent: JsonObject,
    key: string,
    path: string,
    narrow: (value: Json) => T | undefined,
    expected: string,
  ): T | null {
    const value = field(parent, key) ?? null;
    if (value === null) return null;
    const narrowed = narrow(value);
    if (narrowed !== undefined) return narrowed;
    throw this.fail(`${path}/${key}`, `there is ${JSON.stringify(value).slice(0, 60)} where ${expected} belongs`);
  }
}

/** How a crunch run uses a trigger. */
type TriggerUse = {
  /** Whether a checkpoint is taken. The engine's own triggers always take one; crunch's own can be disabled. */
  readonly taken: boolean;
  /** Whether the checkpoint appears in the directory that crunch's readers use. */
  readonly shown: boolean;
};

/** Total, so that every trigger has a defined use. */
export type CrunchTriggers = Readonly<Record<Trigger, TriggerUse>>;

/** The switches of `checkpoint-config.yaml` in Holdfast's terms. */
export type TriggerSwitches = {
  readonly enabled: boolean;
  /** false: nothing is saved without a request. */
  readonly automatic: boolean;
  readonly on: Readonly<Partial<Record<Trigger, boolean>>>;
};

export const DEFAULT_SWITCHES: TriggerSwitches = {
  enabled: true,
  automatic: true,
  on: { stage: true, batch_complete: true, agent_complete: false, conflict_start: true, conflict_resolved: true },
};

/** Triggers that crunch adds to the engine's own. These can be disabled completely. */
const CRUNCH_TAKES: ReadonlySet<Trigger> = new Set<Trigger>([
  "batch_complete",
  "agent_complete",
  "conflict_start",
  "conflict_resolved",
]);

/**
 * Triggers that the user requested or that end a session. They are shown even if automatic checkpoints are disabled.
 */
const ASKED_FOR: ReadonlySet<Trigger> = new Set<Trigger>([
  "manual",
  "interrupt",
  "session_end",
  "before_restore",
  "restore",
  "fork",
  "import",
]);

export function crunchTriggers(switches: TriggerSwitches): CrunchTriggers {
  const use = (trigger: Trigger): TriggerUse => {
    const automatic = ASKED_FOR.has(trigger) || switches.automatic;
    const on = switches.enabled && automatic && (switches.on[trigger] ?? DEFAULT_SWITCHES.on[trigger] ?? true);
    return { taken: on || !CRUNCH_TAKES.has(trigger), shown: on };
  };
  // TRIGGERS lists every member of the type, so the cast is safe.
  return Object.fromEntries(TRIGGERS.map((trigger) => [trigger, use(trigger)])) as CrunchTriggers;
}
