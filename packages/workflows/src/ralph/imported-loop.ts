// Reads a loop that AIWG wrote as a ralph run: task, check, limits, memory and end, from its checkpoint and the files
// beside it.

import type { Planes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, asJsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { LOOP_EXTENSION } from "@holdfast/formats/loop-json";
import type { ContinuedDocument } from "../plugin.ts";
import { clip, oneLine } from "../text.ts";
import type { Reflection } from "./iteration.ts";
import { MEMORY_POLICIES, parseRalphOptions } from "./options.ts";
import { type Learning, MAX_LEARNINGS, type RalphState, initialRalphState } from "./state.ts";

/** Extension with the files beside the checkpoint, which a later mirror replaces. */
const FILES_EXTENSION = "loop-files";

/**
 * null: not a loop. The document's own words for phase and agent stay in the document: they name no stage and no agent
 * of ours. `isNewest`: only the newest checkpoint ends with its loop.
 */
export function readImportedLoop(checkpoint: ExternalCheckpoint, isNewest: boolean): ContinuedDocument | null {
  const { workflow, planes, beside = {} } = checkpoint;
  const extension = planes.extensions[LOOP_EXTENSION];
  if (workflow !== "ralph_loop" || !isJsonObject(extension)) return null;
  const loop = asJsonObject(beside["state.json"]);
  const sources = [loop, asJsonObject(loop["configuration"]), planes.context.values, planes.config.inputs];
  const task = textIn(sources, ["task", "objective"]) ?? composeTask(planes, extension);
  const memory = readMemory(asJsonObject(beside["reflection-memory.json"]), extension, loop);
  const options = readOptions(sources, extension, { task, ...memory.options });
  const state = readState(checkpoint, memory);
  const iteration = state.totals.iterations;
  const end = isNewest ? endOf(loop, { options, iteration }) : null;
  return {
    work: { kind: "task", text: task },
    planes: {
      ...planes,
      position: { ...planes.position, workflow: "ralph", stage: "begin", iteration, ...end },
      context: { ...planes.context, values: state },
      inputs: { ...planes.inputs, task },
      config: { ...planes.config, agent: null, model: null, mode: "default", inputs: options },
      extensions: {
        ...planes.extensions,
        ...(Object.keys(beside).length === 0 ? {} : { [FILES_EXTENSION]: { ...beside } }),
      },
    },
  };
}

/** Only facts of the document: what it does not say comes from the user's settings when the run is resumed. */
function readOptions(sources: readonly JsonObject[], extension: JsonObject, own: JsonObject): JsonObject {
  const criterion = textIn(sources, ["completion_criteria", "completionCriteria", "completion"]);
  const max = countIn([...sources.slice(0, 2), extension], ["max_iterations", "maxIterations"]);
  const minutes = countIn(sources.slice(0, 2), ["timeout_minutes", "timeoutMinutes"]);
  return {
    workflowType: "ralph_loop",
    ...own,
    ...(criterion === null ? {} : { until: [{ command: commandOf(criterion) }] }),
    ...(max === null ? {} : { maxIterations: max }),
    ...(minutes === null ? {} : { maxMinutes: minutes }),
  };
}

/** AIWG's criteria are sentences around a command, such as "npm test passes" or "`tsc` exits with code 0". */
function commandOf(criterion: string): string {
  const [, command] = OUTCOME.exec(criterion) ?? [];
  const bare = (command ?? criterion).trim();
  return /^`[^`]+`$/.test(bare) ? bare.slice(1, -1) : bare;
}

const OUTCOME = /^(.{1,1000}?)\s+(?:passes|pass|succeeds|is green|exits (?:with )?(?:code |status )?0)\.?$/;

/** A document without a task still has the words of its id, its phase and its variables. */
function composeTask({ position, context }: Planes, extension: JsonObject): string {
  const id = textIn([extension], ["workflow_id"]) ?? "";
  const slug = id.replace(/^ralph-/, "").replace(/-(?:[a-f0-9]{8}|\d{4}-\d\d-\d\d)$/, "");
  const step = textIn([extension], ["step"]);
  const variables = Object.entries(context.values).flatMap(([name, value]) =>
    typeof value === "string" || typeof value === "number" ? [`${name}: ${value}`] : [],
  );
  const known = variables.length === 0 ? "" : ` Known: ${variables.slice(0, MOST_VARIABLES).join("; ")}.`;
  const place = `phase ${position.stage}${step === null ? "" : `, step ${step}`}`;
  return clip(`Continue the work "${slug.replaceAll("-", " ")}" (${place}).${known}`, MOST_TEXT);
}

/** A checkpoint at the end of an iteration ends it. Any other was taken during an iteration, which runs again. */
function readState({ trigger, planes }: ExternalCheckpoint, memory: LoopMemory): RalphState & JsonObject {
  const { iteration: current, attempts } = planes.position;
  const iterations = trigger === "iteration" ? current : Math.max(0, current - 1);
  return {
    ...initialRalphState,
    totals: { ...initialRalphState.totals, iterations, failed: Math.min(iterations, attempts["failures"] ?? 0) },
    memory: memory.reflections,
    learnings: memory.learnings,
  };
}

/**
 * Where a loop stands that does not continue by itself. Words of AIWG's schemas and of its programs. An end is only
 * recorded with complete options: otherwise the check of the next resume decides.
 */
function endOf(
  loop: JsonObject,
  { options, iteration }: { readonly options: JsonObject; readonly iteration: number },
): { readonly stage: "done" | "fatal" | "limit"; readonly reason: string } | null {
  if (options["until"] === undefined) return null;
  const { maxIterations } = parseRalphOptions(options);
  const status = textIn([loop], ["status"]) ?? "";
  const why = textIn([asJsonObject(loop["error_context"])], ["error_message"]);
  if (DONE.has(status)) return { stage: "done", reason: `It was ${status} before it was imported` };
  if (iteration >= maxIterations)
    return { stage: "limit", reason: `It had used all of its ${maxIterations} iterations before it was imported` };
  if (!FAILED.has(status)) return null;
  return { stage: "fatal", reason: `It was ${status} before it was imported${why === null ? "" : `: ${why}`}` };
}

const DONE: ReadonlySet<string> = new Set(["completed", "success"]);
const FAILED: ReadonlySet<string> = new Set(["failed", "aborted", "error", "budget_exhausted"]);

interface LoopMemory {
  readonly reflections: readonly Reflection[];
  readonly learnings: readonly Learning[];
  /** Size and policy of the reflection window, where the document names them. */
  readonly options: JsonObject;
}

/** The reflections of the loop's own file come first, then those in the checkpoint. */
function readMemory(file: JsonObject, extension: JsonObject, loop: JsonObject): LoopMemory {
  const inside = asJsonObject(asJsonObject(extension["agent_state"])["memory"]);
  const entries = Object.keys(file).length > 0 ? [file, ...listOf(file["window"])] : listOf(inside["reflections"]);
  const metadata = asJsonObject(file["memory_metadata"]);
  const capacity = countIn([metadata], ["omega_capacity"]);
  const policy = MEMORY_POLICIES.find((one) => one === metadata["window_policy"]);
  const reflections = entries.flatMap(reflectionOf).toSorted((a, b) => a.iteration - b.iteration);
  const texts = [loop["learnings"], loop["accumulatedLearnings"], inside["learnings"]].flatMap(learningsOf);
  const learned = reflections.flatMap(({ iteration, learnings }) => learnings.map((text) => ({ iteration, text })));
  const all = new Map([...learned, ...texts].map((one) => [one.text, one]));
  return {
    reflections: reflections.slice(-Math.min(capacity ?? 3, 10)),
    learnings: [...all.values()].slice(-MAX_LEARNINGS),
    options:
      capacity === null && policy === undefined
        ? {}
        : {
            memory: {
              ...(capacity === null ? {} : { capacity: Math.min(capacity, 10) }),
              ...(policy === undefined ? {} : { policy }),
            },
          },
  };
}

function reflectionOf(entry: Json): readonly Reflection[] {
  if (!isJsonObject(entry)) return [];
  const own = asJsonObject(entry["self_reflection"]);
  const judged = asJsonObject(entry["evaluator_output"]);
  const text = textIn([own, entry], ["reflection_text", "text"]);
  const iteration = countIn([entry], ["iteration"], 0);
  if (text === null || iteration === null) return [];
  const reward = judged["reward_signal"];
  return [
    {
      iteration,
      unitName: "loop",
      verdict: judged["passed"] === true ? "passed" : "failed",
      quality: typeof reward === "number" ? Math.min(100, Math.max(0, reward * 100)) : null,
      text,
      learnings: learningsOf(own["lessons_learned"] ?? entry["learnings"]).map((one) => one.text),
      signature: null,
      failing: listOf(judged["errors"])
        .flatMap((error) => (typeof error === "string" ? [oneLine(error, 200)] : []))
        .slice(0, MAX_LEARNINGS),
      lastSeen: iteration,
    },
  ];
}

/** A list of texts or of objects with a text, or one text with a line for each. */
function learningsOf(value: Json | undefined): readonly Learning[] {
  const entries = typeof value === "string" ? value.slice(0, MOST_TEXT).split("\n") : listOf(value);
  return entries.flatMap((entry) => {
    const said = typeof entry === "string" ? entry : textIn([asJsonObject(entry)], ["text", "learning"]);
    const text = oneLine((said ?? "").replace(/^\s*(?:#.*|[-*+]\s+|\d{1,3}[.)]\s+)/, ""), 300);
    return text === "" ? [] : [{ iteration: countIn([asJsonObject(entry)], ["iteration"], 0) ?? 0, text }];
  });
}

const MOST_TEXT = 20_000;
const MOST_VARIABLES = 50;

function listOf(value: Json | undefined): readonly Json[] {
  return isJsonArray(value) ? value : [];
}

function textIn(sources: readonly JsonObject[], names: readonly string[]): string | null {
  const found = sources
    .flatMap((source) => names.map((name) => (Object.hasOwn(source, name) ? source[name] : null)))
    .find((value): value is string => typeof value === "string" && value.trim() !== "");
  return found === undefined ? null : clip(found.replaceAll("\0", "").trim(), MOST_TEXT);
}

function countIn(sources: readonly JsonObject[], names: readonly string[], least = 1): number | null {
  const found = sources
    .flatMap((source) => names.map((name) => (Object.hasOwn(source, name) ? source[name] : null)))
    .find((value): value is number => Number.isSafeInteger(value) && Number(value) >= least);
  return found ?? null;
}
