import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { InputsPlane, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { HoldfastError } from "../../core/error.ts";
import type { Graph } from "../../core/graph/graph.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import { fitDocument } from "../fit-document.ts";
import type { Decoded, ForeignCheckpoint, ForeignFile, Remark } from "../format.ts";
import { sameJson } from "../name-losses.ts";
import { readTime } from "../read-time.ts";
import { damagedDocument, invalidDocument, newerDocument } from "../refusals.ts";
import type { Source } from "../refusals.ts";
import { CRUNCH_MEMBERS, RECOVERY_MEMBERS, crunchDocument } from "./crunch-document.ts";
import type { CrunchDocument } from "./crunch-document.ts";
import { decodeGraph, encodeGraph } from "./crunch-graph.ts";
import { isCrunchId, isFileName } from "./crunch-id.ts";
import { parseTrigger } from "./crunch-triggers.ts";
import { KEPT, readKept } from "./live-crunch.ts";
import type { Kept } from "./live-crunch.ts";
import { readCrunch } from "./read-crunch.ts";
import { usualRecovery } from "./usual-recovery.ts";

export function decodeCrunch(file: ForeignFile): Decoded {
  const read = readCrunch(file);
  const { document, source, lineOf } = read;
  const fail = (path: string, why: string): HoldfastError =>
    invalidDocument(source, { path, why, ...(lineOf === null ? {} : { line: lineOf(path) }) });
  const remarks: Remark[] = [...read.remarks];
  const checkpoint = decodeDocument({ document, source, remarks, fail });
  const recovery = Object.keys(document["recovery_info"] ?? {});
  if (read.endsWithinLine && RECOVERY_MEMBERS.some((name) => !recovery.includes(name))) {
    throw damagedDocument(source, { why: "it stops within a line of its last member: it seems to be cut" });
  }
  return { checkpoints: [checkpoint], remarks };
}

export interface DecodeContext {
  readonly document: JsonObject;
  readonly source: Source;
  readonly remarks: Remark[];
  readonly fail: (path: string, why: string) => HoldfastError;
}

export function decodeDocument(context: DecodeContext): ForeignCheckpoint {
  const { document, source, remarks } = context;
  checkVersion(document["version"], context);
  const crunch = fitDocument(crunchDocument, document, source);
  const id = crunch.checkpoint_id;
  if (!isFileName(id)) throw context.fail("/checkpoint_id", "there is an id that cannot name a file");
  if (!isCrunchId(id)) remarks.push({ path: "/checkpoint_id", text: "has none of the forms that crunch writes" });
  for (const member of CRUNCH_MEMBERS) {
    if (document[member] === undefined && !(member === "execution_graph" && document["graph_state"] !== undefined)) {
      remarks.push({ path: `/${member}`, text: "is not there" });
    }
  }
  const createdAt = timeOf(crunch.created_at, "/created_at", remarks);
  const issue = crunch.issue_number ?? null;
  return {
    id,
    createdAt,
    trigger: triggerOf(crunch, remarks),
    workflow: "crunch",
    work: issue === null ? { kind: "none" } : { kind: "issue", number: issue },
    planes: planesOf(crunch, createdAt, context),
    original: { format: "crunch-yaml", document },
  };
}

function checkVersion(version: Json | undefined, { source, remarks, fail }: DecodeContext): void {
  if (version === undefined || version === null) {
    if (version === null) remarks.push({ path: "/version", text: "is not there" });
    return;
  }
  const said = typeof version === "string" || typeof version === "number" ? String(version) : "";
  const [, major = "", minor = "0"] = /^(\d{1,9})(?:\.(\d{1,9}))?(?:\.\d{1,9})?$/.exec(said) ?? [];
  if (Number(major) > 1 || (major === "1" && Number(minor) > 0)) {
    throw newerDocument(source, { path: "/version", version: said, known: "1.0" });
  }
  if (major !== "1") throw fail("/version", "there is no version that crunch has had");
  if (typeof version === "number") remarks.push({ path: "/version", text: "a number where crunch writes a text" });
}

function triggerOf(crunch: CrunchDocument, remarks: Remark[]): Trigger {
  const word = crunch.trigger ?? null;
  if (word === null) return "import";
  const trigger = parseTrigger(word);
  if (trigger === undefined) remarks.push({ path: "/trigger", text: `"${word}" is not known: taken for automatic` });
  return trigger ?? "automatic";
}

function timeOf(text: string | null | undefined, path: string, remarks: Remark[]): string | null {
  if (text == null) return null;
  const time = readTime(text);
  if (time === null) remarks.push({ path, text: `"${text.slice(0, 60)}" is no time: kept, not understood` });
  else if (!time.zoned) remarks.push({ path, text: "has no zone: taken for UTC" });
  return time?.iso ?? null;
}

const PHASES: ReadonlySet<string> = new Set(
  "input backlog enrich ready implementing validation e2e docs ready-to-merge done".split(" "),
);

/** The phase was called validation before it was called e2e. */
export function stageOf(phase: string): string {
  return phase === "validation" ? "e2e" : phase;
}

function planesOf(crunch: CrunchDocument, createdAt: string | null, context: DecodeContext): Planes {
  const { remarks } = context;
  const { current_phase: phase, phase_attempt: attempt, phase_started_at: started } = crunch.workflow_state;
  const stage = stageOf(phase);
  if (!PHASES.has(phase)) {
    remarks.push({ path: "/workflow_state/current_phase", text: `"${phase}" is no phase that crunch names` });
  }
  timeOf(started, "/workflow_state/phase_started_at", remarks);
  if (!crunch.recovery_info.can_resume) {
    remarks.push({ path: "/recovery_info/can_resume", text: "it says of itself that it cannot be resumed" });
  }
  const base = emptyPlanes({ workflow: "crunch", stage });
  const graph = graphOf(crunch, context);
  const inputs = { ...base.inputs, issue: issueOf(crunch, createdAt) };
  const extensions = extensionsOf(crunch, graph.rest, usualRecovery({ stage, graph: graph.decoded }));
  const kept = readKept(context.document);
  if (kept === "damaged") remarks.push({ path: `/${KEPT}`, text: "is not as Holdfast writes it: ignored" });
  if (kept !== null && kept !== "damaged")
    return livePlanes({ base, inputs, extensions, kept, stage, graph: graph.decoded, remarks });
  return {
    ...base,
    position: { ...base.position, attempts: attempt == null ? {} : { [stage]: attempt }, graph: graph.decoded },
    inputs,
    extensions,
  };
}

/**
 * A document that Holdfast wrote. Its own member has all that the run needs; where another tool has moved the phase or the graph since, that
 * counts. The other members follow from it, and are written anew.
 */
function livePlanes(params: {
  readonly base: Planes;
  readonly inputs: InputsPlane;
  readonly extensions: JsonObject;
  readonly kept: Kept;
  readonly stage: string;
  readonly graph: Graph | null;
  readonly remarks: Remark[];
}): Planes {
  const { base, inputs, kept, stage, remarks } = params;
  const { team: _team, outputs: _outputs, messages: _messages, knowledge: _knowledge, ...rest } = params.extensions;
  const { position } = kept;
  const known = position.graph === null ? {} : encodeGraph(position.graph);
  const sameGraph = sameJson(known, params.graph === null ? {} : encodeGraph(params.graph));
  if (!sameGraph) remarks.push({ path: "/execution_graph", text: "was changed after Holdfast wrote it: it counts" });
  const { recovery: _usual, ...extensions } = rest;
  return {
    ...base,
    position: { ...position, stage, graph: sameGraph ? position.graph : params.graph },
    context: { ...base.context, values: kept.values },
    inputs,
    extensions,
  };
}

function graphOf(crunch: CrunchDocument, { remarks, fail }: DecodeContext) {
  const member = crunch.execution_graph == null ? "graph_state" : "execution_graph";
  const given = crunch[member];
  if (given == null) return { decoded: null, rest: null };
  if (member === "execution_graph" && crunch.graph_state != null) {
    remarks.push({ path: "/graph_state", text: "there is an execution_graph too, which counts" });
  }
  const { graph, remarks: more, problem } = decodeGraph(given, `/${member}`);
  if (problem !== null) throw fail(`/${member}`, problem);
  remarks.push(...more);
  // Came out of a JSON document.
  return { decoded: graph, rest: graph === null ? (given as JsonObject) : null };
}

/** Crunch does not say when the issue was last changed: when it was looked at is the latest that it can be. */
function issueOf(crunch: CrunchDocument, createdAt: string | null): InputsPlane["issue"] {
  const { issue_number: number, issue_snapshot: issue } = crunch;
  if (number == null || issue == null) return null;
  if (issue.title == null && issue.body == null && issue.labels == null) return null;
  const labels = issue.labels ?? [];
  return {
    number,
    title: issue.title ?? "",
    body: issue.body ?? "",
    labels,
    state: labels.includes("state:done") ? "closed" : "open",
    updatedAt: createdAt ?? "",
  };
}

/** What is crunch's alone stands under `crunch`; what other systems have too, under a name of its own. */
function extensionsOf(crunch: CrunchDocument, graph: JsonObject | null, usual: JsonObject): JsonObject {
  const { issue_snapshot: issue, workflow_state: state } = crunch;
  // Came out of a JSON document.
  const recovery = crunch.recovery_info as object as JsonObject;
  const own = present({
    session_id: crunch.session_id,
    // The usual label follows from the phase, also from the next one.
    ...(state.current_state_label === `state:${state.current_phase}`
      ? {}
      : { current_state_label: state.current_state_label }),
    phase_started_at: state.phase_started_at,
    assignees: issue?.assignees,
    branch: issue?.branch,
    // Without a number there is no issue to put them to.
    ...(crunch.issue_number == null ? { title: issue?.title, body: issue?.body, labels: issue?.labels } : {}),
  });
  return present({
    team: crunch.team_state,
    graph,
    outputs: crunch.agent_outputs,
    messages: crunch.acp_state,
    knowledge: crunch.knowledge_context,
    files: crunch.files_modified,
    // What follows from the position follows from the next one too.
    recovery: sameJson(recovery, usual) ? null : recovery,
    crunch: own,
  });
}

function present(values: Readonly<Record<string, Json | undefined>>): JsonObject {
  const said: [string, Json][] = [];
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    if (typeof value !== "object" || Object.keys(value).length > 0) said.push([key, value]);
  }
  return Object.fromEntries(said);
}
