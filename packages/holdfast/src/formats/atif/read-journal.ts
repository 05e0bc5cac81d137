import type { JournalEntry } from "../../core/journal/journal.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Loss } from "../format.ts";
import { field } from "../patch-document.ts";
import { contentOf } from "./trajectory.ts";
import type { UnnumberedStep } from "./trajectory.ts";

/** One finished call of an agent, as its step's result tells it. */
export interface AgentCall {
  /** Unique in the run, also where a restored run came through the same step again. */
  readonly id: string;
  readonly visit: number;
  readonly step: string;
  readonly entry: number;
  readonly at: string;
  readonly text: string;
  readonly session: string | null;
  readonly usage: {
    readonly input: number | null;
    readonly output: number | null;
    readonly microUsd: number | null;
  } | null;
  readonly facts: JsonObject;
}

export interface ReadJournal {
  readonly steps: readonly UnnumberedStep[];
  readonly calls: readonly AgentCall[];
  readonly losses: readonly Loss[];
}

/** Entries become steps in their order; bookkeeping is left out, and said. */
export function readJournal(entries: readonly JournalEntry[], run: string): ReadJournal {
  const calls: AgentCall[] = [];
  const skipped = new Map<string, number>();
  const outcomes = outcomesOf(entries);
  const steps = entries.flatMap((entry) => {
    const step = stepOf(entry, { run, calls, outcomes });
    if (step === null) skipped.set(entry.kind, (skipped.get(entry.kind) ?? 0) + 1);
    return step === null ? [] : [step];
  });
  const losses = [...skipped].map(([kind, count]) => ({
    path: `journal.${kind}`,
    why: `Bookkeeping that is no part of a transcript (${count})`,
  }));
  return { steps, calls, losses };
}

interface Reading {
  readonly run: string;
  readonly calls: AgentCall[];
  /** How each effect ended, by its key. */
  readonly outcomes: ReadonlyMap<string, JsonObject>;
}

function stepOf(entry: JournalEntry, reading: Reading): UnnumberedStep | null {
  const { kind, body } = entry;
  const extra = { holdfast: { entry: entry.entry, kind } };
  const system = (message: string): UnnumberedStep => ({ timestamp: entry.at, source: "system", message, extra });
  const text = (name: string): string => contentOf(field(body, name) ?? "");
  switch (kind) {
    case "stage.entered":
      return system(`Stage ${text("stage")}, iteration ${text("iteration")}`);
    case "stage.ended":
      return system(`Stage ${text("stage")} ended with ${text("event")}, next ${text("next")}: ${text("reason")}`);
    case "step.finished":
      return field(body, "recorded") === true
        ? system(`Recorded ${text("step")}: ${text("result")}`)
        : finished(entry, reading);
    case "graph.set":
      return system(`Graph ${contentOf(field(body, "graph") ?? "")}`);
    case "graph.moved":
      return system(`Graph moved: ${text("events")}`);
    case "step.failed":
      return called(entry, { name: text("step"), arguments: visitOf(body), content: text("reason"), failed: true });
    case "effect.intended":
      return effect(entry, reading);
    case "run.parked":
      return system(`Parked on ${text("on")}: ${text("reason")}`);
    case "run.unparked": {
      const answer = field(body, "answer");
      if (answer === undefined || answer === null) return system("Taken up again");
      return { timestamp: entry.at, source: "user", message: contentOf(answer), extra };
    }
    case "run.ended":
      return system(`Ended: ${text("outcome")}${field(body, "reason") === undefined ? "" : `, ${text("reason")}`}`);
    case "run.reopened":
      return system(`Reopened: ${text("reason")}`);
    case "restore.started":
    case "restore.finished":
      return system(`${kind === "restore.started" ? "Restoring" : "Restored"} ${contentOf(body)}`);
    case "note":
      return system(text("text"));
    default:
      return kind.startsWith("x.") ? system(`${kind} ${contentOf(body)}`) : null;
  }
}

function finished(entry: JournalEntry, reading: Reading): UnnumberedStep {
  const { body } = entry;
  const name = contentOf(field(body, "step") ?? "");
  const result = field(body, "result") ?? null;
  const call = callOf(entry, name, result, reading);
  if (call === null)
    return called(entry, { name, arguments: visitOf(body), content: contentOf(result), failed: false });
  reading.calls.push(call);
  return called(entry, { name, arguments: visitOf(body), content: call.text, failed: false, trajectory: call.id });
}

/** A step's result is an agent's report when it has what only such a report has. */
function callOf(entry: JournalEntry, step: string, result: Json, { run, calls }: Reading): AgentCall | null {
  if (!isJsonObject(result)) return null;
  const { outcome, text, usage, session, ...facts } = result;
  if ((outcome !== "completed" && outcome !== "failed") || typeof text !== "string" || !isJsonObject(usage))
    return null;
  const visit = Number(field(entry.body, "visit") ?? 0);
  const id = `${run}/${visit}/${step}`;
  const amount = (name: string): number | null => {
    const value = field(usage, name);
    return typeof value === "number" ? value : null;
  };
  return {
    id: calls.some((call) => call.id === id) ? `${id}/${entry.entry}` : id,
    visit,
    step,
    entry: entry.entry,
    at: entry.at,
    text,
    session: typeof session === "string" ? session : null,
    usage: { input: amount("inputTokens"), output: amount("outputTokens"), microUsd: amount("microUsd") },
    facts: { outcome, ...facts },
  };
}

/** What the workflow itself did: a call that no model asked for, with its answer. */
function called(
  entry: JournalEntry,
  call: {
    readonly name: string;
    readonly arguments: JsonObject;
    readonly content: string;
    readonly failed: boolean;
    readonly trajectory?: string;
  },
): UnnumberedStep {
  const id = `entry-${entry.entry}`;
  return {
    timestamp: entry.at,
    source: "agent",
    message: "",
    tool_calls: [{ tool_call_id: id, function_name: call.name, arguments: call.arguments }],
    observation: {
      results: [
        {
          source_call_id: id,
          content: call.content,
          ...(call.trajectory === undefined ? {} : { subagent_trajectory_ref: [{ trajectory_id: call.trajectory }] }),
          ...(call.failed ? { extra: { is_error: true } } : {}),
        },
      ],
    },
    llm_call_count: 0,
    extra: { holdfast: { entry: entry.entry, kind: entry.kind } },
  };
}

function effect(entry: JournalEntry, { outcomes }: Reading): UnnumberedStep {
  const { body } = entry;
  const key = contentOf(field(body, "key") ?? "");
  const outcome = outcomes.get(key);
  return called(entry, {
    name: contentOf(field(body, "kind") ?? "effect"),
    arguments: { target: field(body, "target") ?? null, detail: field(body, "detail") ?? {} },
    content: outcome === undefined ? "not settled" : contentOf(outcome),
    failed: outcome?.["outcome"] !== "done",
  });
}

function outcomesOf(entries: readonly JournalEntry[]): ReadonlyMap<string, JsonObject> {
  const outcomes = new Map<string, JsonObject>();
  for (const { kind, body } of entries) {
    if (kind === "effect.settled" || kind === "effect.unknown") outcomes.set(contentOf(field(body, "key") ?? ""), body);
  }
  return outcomes;
}

function visitOf(body: JsonObject): JsonObject {
  return { visit: field(body, "visit") ?? 0 };
}
