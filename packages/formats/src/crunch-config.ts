// Reads crunch's `.claude/checkpoint-config.yaml`: triggers, retention and location of its checkpoints.

import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { dictionary, finite, flag, object, text } from "@holdfast/core/json";
import { type KeepRule, type RetentionPolicy, defaultRetention } from "@holdfast/core/retention";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import { readCrunch } from "./crunch-document.ts";
import { decodeTrigger, isSeedTrigger } from "./crunch-words.ts";
import { checkDocument, invalidDocument, maybe } from "./document.ts";
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

const STORAGE = { location: maybe(text), compress: maybe(flag), max_size_mb: maybe(finite) };
const CHECKPOINT = {
  enabled: maybe(flag),
  auto_checkpoint: maybe(flag),
  checkpoint_triggers: maybe(dictionary(maybe(flag))),
  retention: maybe(dictionary(maybe(finite))),
  storage: maybe(object(STORAGE)),
};
const configShape = object({ checkpoint: maybe(object(CHECKPOINT)) });

/** A missing key has the value of crunch's own example. Throws FORMAT_INVALID for an impossible value. */
export function parseCrunchConfig(file: ExternalFile): CrunchConfig {
  const { document, remarks: read, source, placeOf } = readCrunch(file);
  const remarks: Remark[] = [...read];
  const fail = (path: string, why: string): HoldfastError => invalidDocument(source, { path, why, ...placeOf?.(path) });
  const root = checkDocument(configShape, document, source, fail).checkpoint;
  const storage = root?.storage;
  const ignoreUnknown = (given: object, path: string, known: object): void => {
    for (const key of Object.keys(given))
      if (!Object.hasOwn(known, key)) remarks.push({ path: `${path}/${key}`, text: "is not known: ignored" });
  };
  ignoreUnknown(document, "", { checkpoint: true });
  ignoreUnknown(root ?? {}, "/checkpoint", CHECKPOINT);
  ignoreUnknown(storage ?? {}, "/checkpoint/storage", STORAGE);
  const location = storage?.location ?? ".claude/crunch/{issue}/checkpoints";
  const bad = locationProblem(location);
  if (bad !== null) throw fail("/checkpoint/storage/location", bad);
  const megabytes = storage?.max_size_mb ?? 50;
  if (megabytes < 0) throw fail("/checkpoint/storage/max_size_mb", "there is a size below 0");
  const [enabled, automatic] = [root?.enabled ?? true, root?.auto_checkpoint ?? true];
  return {
    enabled,
    triggers: crunchTriggers({ enabled, automatic, on: switchesOf(root?.checkpoint_triggers ?? {}, remarks) }),
    retention: {
      ...defaultRetention,
      perTrigger: keepsOf(root?.retention ?? {}, { remarks, fail }),
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
    compress: storage?.compress ?? false,
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
  if (problem !== null) throw usageError(`"${template}" is not a valid location: ${problem}`);
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
function switchesOf(
  given: Readonly<Record<string, boolean | null | undefined>>,
  remarks: Remark[],
): TriggerSwitches["on"] {
  const { conflict_events: events = null, ...others } = given;
  const switches: Partial<Record<Trigger, boolean>> = {
    ...DEFAULT_SWITCHES.on,
    ...(events === null ? {} : { conflict_start: events, conflict_resolved: events }),
  };
  for (const [word, on] of Object.entries(others)) {
    const trigger = decodeTrigger(word);
    if (trigger === undefined) remarks.push(unknownTrigger("checkpoint_triggers", word));
    else if (on != null) switches[trigger] = on;
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
};

/** Crunch counts these per phase, and all others per run. */
const PER_PHASE: ReadonlySet<Trigger> = new Set(["stage", "batch_complete", "agent_complete"]);

/**
 * -1 keeps all and 0 keeps none, except the newest and the newest resumable checkpoint. Crunch's own program treats
 * these values almost the opposite way.
 */
function keepsOf(
  given: Readonly<Record<string, number | null | undefined>>,
  into: { readonly remarks: Remark[]; readonly fail: (path: string, why: string) => HoldfastError },
): Partial<Record<Trigger, KeepRule>> {
  const keeps: Partial<Record<Trigger, KeepRule>> = {};
  for (const word of new Set([...Object.keys(DEFAULT_KEEPS), ...Object.keys(given)])) {
    const number = given[word] ?? DEFAULT_KEEPS[word] ?? -1;
    if (!Number.isSafeInteger(number) || number < -1)
      throw into.fail(`/checkpoint/retention/${word}`, `there is ${number} where a count belongs, or -1 for all`);
    const trigger = decodeTrigger(word);
    if (trigger === undefined) into.remarks.push(unknownTrigger("retention", word));
    else keeps[trigger] = { keep: number === -1 ? "all" : number, per: PER_PHASE.has(trigger) ? "stage" : "run" };
  }
  return keeps;
}

function unknownTrigger(member: string, word: string): Remark {
  return { path: `/checkpoint/${member}/${word}`, text: "is not a known trigger: ignored" };
}

/** How a crunch run uses a trigger. */
type TriggerUse = {
  /** Whether a checkpoint is taken. The engine's own triggers always take one; crunch's own can be disabled. */
  readonly taken: boolean;
  /** Whether the checkpoint appears in the directory that crunch's readers use: only those with a word of crunch do. */
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
    return { taken: on || !CRUNCH_TAKES.has(trigger), shown: on && isSeedTrigger(trigger) };
  };
  // TRIGGERS lists every member of the type, so the cast is safe.
  return Object.fromEntries(TRIGGERS.map((trigger) => [trigger, use(trigger)])) as CrunchTriggers;
}
