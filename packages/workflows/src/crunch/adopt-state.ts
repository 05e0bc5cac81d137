// The state of an imported run: what Holdfast's own document holds, or what crunch's document and message log say.

import type { Adapters } from "@holdfast/core/adapters";
import type { Planes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, asJsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { sourceDocumentOf } from "@holdfast/formats/format";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import { join } from "node:path";
import { findBase } from "../branch.ts";
import { fetchImportedIssue } from "../forge.ts";
import { loadTemplates } from "../prompts.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { KNOWLEDGE_TYPES, type KnowledgeLog, type PendingCapture, emptyKnowledge, isKnowledgeId } from "./knowledge.ts";
import { type MessageLog, emptyMessages } from "./message-log.ts";
import type { Conflict } from "./messages.ts";
import { CRUNCH_PROMPTS, type CrunchOptions } from "./options.ts";
import { type Phase, parsePhase } from "./phases.ts";
import { GRAPH_PHASES, type CrunchSettings } from "./settings.ts";
import { type AgentOutput, type CrunchState, initialCrunchState, parseCrunchState } from "./state.ts";

/**
 * Builds the state of an imported run that may be past the first phase. A document that Holdfast wrote has all of it.
 * Crunch's own document names messages, conflicts and knowledge by id: the ids are kept, with what crunch's message log
 * says about them. A missing issue and the base are read as they are now.
 */
export async function adoptCrunchState(params: {
  readonly adapters: Adapters;
  readonly options: CrunchOptions;
  readonly planes: Planes;
  readonly issue: number;
  /** The worktree in which the run continues. */
  readonly root: string;
}): Promise<CrunchState> {
  const { adapters, options, root, planes } = params;
  const { forge, issue } = await fetchImportedIssue(adapters, params.issue);
  const { values } = planes.context;
  const isOurs = Object.hasOwn(values, "messages");
  const outputs = adapters.outputs(root);
  // Crunch keeps outputs beside its checkpoints, in files that git may ignore: they are in the user's own checkout.
  const checkout = adapters.outputs(await adapters.projectRoot());
  const read = async (path: string): Promise<string | null> =>
    (await outputs.read(path).catch(absent)) ?? (await checkout.read(path).catch(absent));
  const state = isOurs
    ? parseCrunchState(values)
    : await foreignState({
        planes,
        issue: issue.number,
        settings: options.settings,
        read,
        log: await readLog(adapters),
      });
  const branch = await adapters.branches.of(root);
  const found = await findBase({ branch, forge, named: options.baseBranch });
  if (found.kind === "missing") throw usageError(found.reason, "Name a base branch that is there.");
  await outputs.hide(OUTPUT_DIRECTORY);
  const from = await branch.mergeBase({ a: found.base.commit, b: await branch.head() });
  return {
    ...state,
    issue: state.issue ?? { ...issue },
    base: { branch: found.base.branch, commit: from ?? found.base.commit },
    branch: branch.name,
    settings: state.settings ?? options.settings,
    // A document must not choose the words of the prompts.
    templates: await loadTemplates(CRUNCH_PROMPTS, options.prompts, outputs),
    adopted: true,
  };
}

/** A document's path may be none, or lead out of the worktree. */
function absent(error: unknown): null {
  if (error instanceof HoldfastError) return null;
  throw error;
}

interface Foreign {
  readonly planes: Pick<Planes, "extensions" | "position">;
  readonly issue: number;
  readonly settings: CrunchSettings;
  /** The text of a file of the worktree; null: there is none. */
  readonly read: (path: string) => Promise<string | null>;
  readonly log: CrunchLog;
}

async function foreignState(foreign: Foreign): Promise<CrunchState> {
  const { extensions } = foreign.planes;
  const acp = asJsonObject(extensions["messages"]);
  const at = sourceDocumentOf({ extensions })?.createdAt ?? EPOCH;
  return {
    ...initialCrunchState,
    outputs: await outputsOf(foreign, at),
    messages: messagesOf(foreign, acp, at),
    conflicts: idsIn(acp["conflicts_in_progress"]).map((id) => conflictOf(foreign, id, at)),
    knowledge: knowledgeOf(foreign, at),
  };
}

/** A document without a time. */
const EPOCH = "1970-01-01T00:00:00.000Z";

/**
 * Undelivered messages go to the first team that works. So do messages without an answer: the team's own
 * requests replace them.
 */
function messagesOf(foreign: Foreign, acp: JsonObject, at: string): MessageLog {
  const pending = idsIn(acp["pending_messages"]);
  const awaiting = idsIn(acp["awaiting_response"]).filter((id) => !pending.includes(id));
  const recordsOf = (ids: readonly string[], kind: "pending" | "awaiting", what: string) =>
    ids.map((id) => ({ message: messageOf(foreign, { id, at, what }), status: { kind } as const }));
  return {
    ...emptyMessages,
    records: [
      ...recordsOf(pending, "pending", "was not delivered"),
      ...recordsOf(awaiting, "awaiting", "was not answered"),
    ],
  };
}

function messageOf(
  { planes, issue, log }: Foreign,
  { id, at, what }: { readonly id: string; readonly at: string; readonly what: string },
): MessageLog["records"][number]["message"] {
  const known = log.messages.get(id);
  const from = textIn(known?.["from"]) || "crunch";
  const to = textIn(known?.["to"]) || "*";
  const summary = textIn(known?.["summary"]);
  const said = summary === "" ? "its text is not in the imported document" : `${from} to ${to}: ${summary}`;
  return {
    id,
    type: "BROADCAST",
    from,
    to,
    correlation: null,
    timestamp: textIn(known?.["timestamp"]) || at,
    priority: "NORMAL",
    // No attempt of ours has this number, so every team reads the message.
    metadata: { issue, phase: stageOf(planes), attempt: 0, checkpoint: null },
    payload: { event: "CONTEXT_UPDATE", message: `${id} ${what}; ${said}`, data: {}, affects: [] },
  };
}

/** The document has no positions, so only the user can end the conflict. */
function conflictOf({ planes, log }: Foreign, id: string, at: string): Conflict {
  const known = log.conflicts.get(id);
  return {
    id,
    topic: textIn(known?.["topic"]) || `${id} of the imported checkpoint`,
    phase: stageOf(planes),
    detectedAt: at,
    domains: [],
    participants: idsIn(known?.["agents"]),
    choices: [],
    recommendations: [],
    rounds: [],
    escalation: null,
    resolution: null,
  };
}

/** Whether the conflict comes from a document, which has neither recommendations nor choices. */
export function isImported({ choices, recommendations }: Conflict): boolean {
  return choices.length === 0 && recommendations.length === 0;
}

function knowledgeOf({ planes, issue }: Foreign, at: string): KnowledgeLog {
  const known = asJsonObject(planes.extensions["knowledge"]);
  const injected = idsIn(known["injected_entries"]);
  const pending = isJsonArray(known["pending_captures"]) ? known["pending_captures"] : [];
  return {
    ...emptyKnowledge,
    injected: injected.length === 0 ? [] : [{ phase: stageOf(planes), entries: injected, at }],
    captured: idsIn(known["captured_entries"]).map((entry) => ({ name: `imported/${entry}`, entry, made: false })),
    pending: pending.slice(0, MAX_IDS).map((item, index) => captureOf(item, { index, issue, phase: stageOf(planes) })),
  };
}

/** Crunch does not define the form of a pending capture. An id alone has no content and stays pending. */
function captureOf(
  item: Json,
  { index, issue, phase }: { readonly index: number; readonly issue: number; readonly phase: Phase },
): PendingCapture {
  const given = asJsonObject(item);
  const plain = textIn(item);
  const word = textIn(given["type"]);
  const written = textIn(given["content"]) || textIn(given["summary"]);
  const id = textIn(given["id"]) || textIn(given["name"]) || (isKnowledgeId(plain) ? plain : "");
  return {
    name: id || `imported/${index + 1}`,
    type: KNOWLEDGE_TYPES.find((type) => type === word) ?? "pattern",
    content: plain === "" ? written || JSON.stringify(item).slice(0, MAX_TEXT) : isKnowledgeId(plain) ? "" : plain,
    tags: idsIn(given["tags"]),
    source: { type: "issue", ref: `#${issue}`, phase },
    issue,
  };
}

/**
 * What crunch's agents delivered. The document does not say in which phase: the templates do, by the action. The file
 * at the location is read, so that later agents have the output itself.
 */
async function outputsOf({ planes, settings, read }: Foreign, at: string): Promise<readonly AgentOutput[]> {
  const outputs: AgentOutput[] = [];
  for (const [agent, actions] of Object.entries(asJsonObject(planes.extensions["outputs"])).slice(0, MAX_IDS)) {
    for (const [action, value] of Object.entries(asJsonObject(actions)).slice(0, MAX_IDS)) {
      const given = asJsonObject(value);
      const location = textIn(given["output_location"]) || null;
      const text = location === null ? null : await read(location);
      outputs.push({
        agent,
        action,
        node: "",
        phase: phaseOfAction(settings, action) ?? "enrich",
        completedAt: textIn(given["completed_at"]) || at,
        summary: textIn(given["output_summary"]),
        location,
        ...(text === null || text.trim() === "" ? {} : { delivered: text.slice(0, DELIVERED_CHARACTERS) }),
      });
    }
  }
  return outputs;
}

const DELIVERED_CHARACTERS = 12_000;

function phaseOfAction({ graphs }: CrunchSettings, action: string): Phase | undefined {
  return GRAPH_PHASES.find((phase) => graphs[phase].nodes.some((node) => node.action === action));
}

/** Crunch's message log of the repository, by id. A document names only ids. */
interface CrunchLog {
  readonly messages: ReadonlyMap<string, JsonObject>;
  readonly conflicts: ReadonlyMap<string, JsonObject>;
}

/** A missing or unreadable log is empty: the ids alone are kept then. */
async function readLog(adapters: Adapters): Promise<CrunchLog> {
  const path = join(await adapters.projectRoot(), ".claude/acp/message-log.yaml");
  const file = readRegularFile({ path, maxBytes: 4 * 1024 * 1024 });
  let log: JsonObject = {};
  try {
    if (file.kind === "read")
      log = asJsonObject(readYaml(new TextDecoder().decode(file.bytes), { format: "crunch-yaml", file: path }).value);
  } catch (error) {
    absent(error);
  }
  const byId = (list: Json | undefined) =>
    new Map(
      (isJsonArray(list) ? list : [])
        .filter((one) => isJsonObject(one))
        .map((one) => [textIn(one["id"]), one] as const),
    );
  return { messages: byId(log["messages"]), conflicts: byId(log["conflicts"]) };
}

const MAX_IDS = 1000;
const MAX_TEXT = 4000;

/** Ids of a list; an item may also be an object with an id. */
function idsIn(value: Json | undefined): readonly string[] {
  const ids = (isJsonArray(value) ? value : []).map((item) => textIn(isJsonObject(item) ? item["id"] : item));
  return [...new Set(ids.filter((id) => id !== ""))].slice(0, MAX_IDS);
}

function textIn(value: Json | undefined): string {
  return typeof value === "string" ? value.trim().slice(0, MAX_TEXT) : "";
}

function stageOf({ position }: Pick<Planes, "position">): Phase {
  return parsePhase(position.stage) ?? "enrich";
}
