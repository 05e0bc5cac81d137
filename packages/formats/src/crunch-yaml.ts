// The crunch-yaml format: decodes and encodes checkpoints of claude-crunch, in YAML or JSON.

import {
  type FilesPlane,
  type InputsPlane,
  type Planes,
  type Trigger,
  emptyPlanes,
  positionShape,
} from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { type Json, type JsonObject, asJsonObject, isJsonObject } from "@holdfast/core/json";
import { NO_ATTEMPT, type Position } from "@holdfast/core/position";
import type { HoldfastError } from "@holdfast/platform/error";
import {
  CRUNCH_MEMBERS,
  type CrunchDocument,
  HOLDFAST_MEMBER,
  RECOVERY_MEMBERS,
  crunchDocument,
  decodeGraph,
  defaultRecovery,
  encodeGraph,
  isCrunchId,
  isFileName,
  makeId,
  readCrunch,
} from "./crunch-document.ts";
import { decodeTrigger, isCrunchPhase, labelWord, phaseWord, stageOfDocument, triggerWord } from "./crunch-words.ts";
import {
  type DocumentSource,
  type LossReasons,
  checkDocument,
  damagedDocument,
  field,
  invalidDocument,
  listLosses,
  parseIsoTime,
  patchDocument,
  sameJson,
  unsupportedVersion,
  withoutProtoKeys,
} from "./document.ts";
import type { Decoded, Detection, Encoded, ExternalCheckpoint, ExternalFile, Format, Loss, Remark } from "./format.ts";
import { writeJson } from "./strict-json.ts";
import { writeYaml } from "./strict-yaml.ts";

export function decodeCrunch(file: ExternalFile): Decoded {
  const read = readCrunch(file);
  const { document, source, placeOf } = read;
  const fail = (path: string, why: string): HoldfastError => invalidDocument(source, { path, why, ...placeOf?.(path) });
  const remarks: Remark[] = [...read.remarks];
  const checkpoint = decodeCrunchDocument({ document, source, remarks, fail });
  const recovery = Object.keys(document["recovery_info"] ?? {});
  if (read.endsWithinLine && RECOVERY_MEMBERS.some((name) => !recovery.includes(name))) {
    throw damagedDocument(source, { why: "it stops within a line of its last member: it seems to be cut" });
  }
  return { checkpoints: [checkpoint], remarks };
}

interface DecodeContext {
  readonly document: JsonObject;
  readonly source: DocumentSource;
  readonly remarks: Remark[];
  readonly fail: (path: string, why: string) => HoldfastError;
}

function decodeCrunchDocument(context: DecodeContext): ExternalCheckpoint {
  const { document, source, remarks } = context;
  checkVersion(document["version"], context);
  const crunch = checkDocument(crunchDocument, document, source);
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
  const text = typeof version === "string" || typeof version === "number" ? String(version) : "";
  const [, major = "", minor = "0"] = /^(\d{1,9})(?:\.(\d{1,9}))?(?:\.\d{1,9})?$/.exec(text) ?? [];
  if (Number(major) > 1 || (major === "1" && Number(minor) > 0)) {
    throw unsupportedVersion(source, { path: "/version", version: text, known: "1.0" });
  }
  if (major !== "1") throw fail("/version", "there is no version that crunch has had");
  if (typeof version === "number") remarks.push({ path: "/version", text: "a number where crunch writes a text" });
}

function triggerOf(crunch: CrunchDocument, remarks: Remark[]): Trigger {
  const word = crunch.trigger ?? null;
  if (word === null) return "import";
  const trigger = decodeTrigger(word);
  if (trigger === undefined) remarks.push({ path: "/trigger", text: `"${word}" is not known: taken for automatic` });
  return trigger ?? "automatic";
}

function timeOf(text: string | null | undefined, path: string, remarks: Remark[]): string | null {
  if (text == null) return null;
  const time = parseIsoTime(text);
  if (time === null) remarks.push({ path, text: `"${text.slice(0, 60)}" is not a time: kept, not understood` });
  else if (!time.zoned) remarks.push({ path, text: "has no zone: taken for UTC" });
  return time?.iso ?? null;
}

function planesOf(crunch: CrunchDocument, createdAt: string | null, context: DecodeContext): Planes {
  const { remarks } = context;
  const { current_phase: phase, phase_attempt: attempt, phase_started_at: started } = crunch.workflow_state;
  const stage = stageOfDocument(phase, crunch.workflow_state.current_state_label);
  if (!isCrunchPhase(phase)) {
    remarks.push({ path: "/workflow_state/current_phase", text: `"${phase}" is not a phase that crunch names` });
  }
  timeOf(started, "/workflow_state/phase_started_at", remarks);
  const kept = readHoldfastMember(context.document);
  // A run of Holdfast that failed writes this as a matter of course.
  if (!crunch.recovery_info.can_resume && (kept === null || kept === "damaged")) {
    remarks.push({ path: "/recovery_info/can_resume", text: "it says of itself that it cannot be resumed" });
  }
  const base = emptyPlanes({ workflow: "crunch", stage });
  const graph = graphOf(crunch, context);
  const inputs = { ...base.inputs, issue: decodeIssue(crunch, createdAt) };
  const extensions = extensionsOf(crunch, graph.rest, defaultRecovery({ stage, graph: graph.decoded }));
  if (kept === "damaged") remarks.push({ path: `/${HOLDFAST_MEMBER}`, text: "is not as Holdfast writes it: ignored" });
  if (kept !== null && kept !== "damaged")
    return livePlanes({ base, inputs, extensions, kept, stage, graph: graph.decoded, remarks });
  return {
    ...base,
    position: { ...base.position, attempts: attempt == null ? {} : { [stage]: attempt }, graph: graph.decoded },
    inputs,
    extensions,
  };
}

interface HoldfastMember {
  readonly position: Position;
  readonly values: JsonObject;
}

/** Returns "damaged" if the member exists but Holdfast could not have written it. The workflow checks the values. */
function readHoldfastMember(document: JsonObject): HoldfastMember | "damaged" | null {
  const kept = field(document, HOLDFAST_MEMBER);
  if (kept === undefined || kept === null) return null;
  if (!isJsonObject(kept) || kept["version"] !== 1) return "damaged";
  const { values } = kept;
  const position = isJsonObject(kept["position"]) ? { ...kept["position"], stageAttempt: { ...NO_ATTEMPT } } : null;
  if (!isJsonObject(values) || position === null || positionShape(position) !== null) return "damaged";
  // The shape check above makes this cast safe.
  return { position: position as object as Position, values };
}

/**
 * Decodes a document that Holdfast wrote. Its own member has everything the run needs. If another tool has changed the
 * phase or the graph since, the change counts. The other members are derived and written again.
 */
function livePlanes(params: {
  readonly base: Planes;
  readonly inputs: InputsPlane;
  readonly extensions: JsonObject;
  readonly kept: HoldfastMember;
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
  // The value comes from a JSON document, so the cast is safe.
  return { decoded: graph, rest: graph === null ? (given as JsonObject) : null };
}

/** Crunch does not record when the issue last changed. The time of the checkpoint is the latest possible one. */
function decodeIssue(crunch: CrunchDocument, createdAt: string | null): InputsPlane["issue"] {
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

/** Crunch's own members go under `crunch`; what other systems also have gets its own name. */
function extensionsOf(crunch: CrunchDocument, graph: JsonObject | null, usual: JsonObject): JsonObject {
  const { issue_snapshot: issue, workflow_state: state } = crunch;
  // The value comes from a JSON document, so the cast is safe.
  const recovery = crunch.recovery_info as object as JsonObject;
  const own = present({
    session_id: crunch.session_id,
    // The default label follows from the phase, now and after a transition, so it is not kept.
    ...(isDefaultLabel(state) ? {} : { current_state_label: state.current_state_label }),
    phase_started_at: state.phase_started_at,
    assignees: issue?.assignees,
    branch: issue?.branch,
    // Without a number there is no issue that could hold them.
    ...(crunch.issue_number == null ? { title: issue?.title, body: issue?.body, labels: issue?.labels } : {}),
  });
  return present({
    team: crunch.team_state,
    graph,
    outputs: crunch.agent_outputs,
    messages: crunch.acp_state,
    knowledge: crunch.knowledge_context,
    files: crunch.files_modified,
    // What follows from the position is not kept, because it also follows from the next one.
    recovery: sameJson(recovery, usual) ? null : recovery,
    crunch: own,
  });
}

function isDefaultLabel({
  current_phase: phase,
  current_state_label: label,
}: CrunchDocument["workflow_state"]): boolean {
  return label === `state:${phase}` || label === labelWord(stageOfDocument(phase, label));
}

function present(values: Readonly<Record<string, Json | undefined>>): JsonObject {
  const kept: [string, Json][] = [];
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    if (typeof value !== "object" || Object.keys(value).length > 0) kept.push([key, value]);
  }
  return Object.fromEntries(kept);
}

/** Checkpoints of claude-crunch: YAML, or JSON before 2026, one file each in a directory with an index. */
export const crunchYaml: Format = {
  name: "crunch-yaml",
  title: "claude-crunch checkpoint (YAML or JSON)",
  capabilities: { many: false, directory: true, resumable: true },
  detect: detectCrunch,
  decode: decodeCrunch,
  encode: (checkpoint) => encodeCrunch(checkpoint),
};

/** Checks the text only: parsing a large YAML document just to reject it would take seconds. */
function detectCrunch(file: ExternalFile): Detection {
  const text = LOSSY.decode(file.bytes.subarray(0, LOOKED_AT));
  const has = (member: string): boolean => new RegExp(`(?:^|[{,])\\s*["']?${member}["']?\\s*:`, "m").test(text);
  if (["checkpoint_id", "workflow_state", "current_phase"].every(has)) {
    return { match: "yes", why: "it has a checkpoint_id and a workflow_state with a current_phase" };
  }
  if (PLACE.test(file.path)) return { match: "maybe", why: "it is where crunch writes its checkpoints" };
  return { match: "no", why: "it has no checkpoint_id with a workflow_state" };
}

/** A file with such a path is crunch's even if it is damaged. The index next to it is not a checkpoint. */
const PLACE =
  /(?:^|[/\\])\.claude[/\\]crunch[/\\][^/\\]+[/\\]checkpoints[/\\](?!index\.)[^/\\]+\.(?:ya?ml|json)(?:\.gz|\.lz4)?$/i;
const LOOKED_AT = 65_536;
const LOSSY = new TextDecoder();

export type CrunchEncoding = "yaml" | "json";

/** Encodes into the original crunch document if there is one: only changes are written. */
export function encodeCrunch(checkpoint: ExternalCheckpoint, encoding: CrunchEncoding = "yaml"): Encoded {
  const { document, losses } = documentOf(checkpoint);
  const id = String(document["checkpoint_id"]);
  const issue = document["issue_number"];
  return {
    bytes: encoding === "json" ? writeJson(document, DECIMAL) : UTF8.encode(writeYaml(document, DECIMAL)),
    path: `.claude/crunch/${typeof issue === "number" ? issue : "none"}/checkpoints/${id}.${encoding}`,
    losses: [...losses, ...lossesOf(checkpoint, document)],
  };
}

const UTF8 = new TextEncoder();
/** Some documents have the number 1.0 as version; YAML and JSON readers give 1 for it. */
const DECIMAL = { decimal: "version" };

/** Returns the document, and the losses of members that did not fit. */
export function documentOf(given: ExternalCheckpoint): {
  readonly document: JsonObject;
  readonly losses: readonly Loss[];
} {
  const checkpoint = withoutProtoKeys(given);
  if (checkpoint.original?.format !== "crunch-yaml") {
    const { view, losses } = viewOf(checkpoint);
    return { document: view, losses };
  }
  const { document: original } = checkpoint.original;
  const before = decodeOriginal(original);
  const { view, losses } = viewOf(withoutStale(dropUnstated(checkpoint, original), before));
  const named = (one: JsonObject): JsonObject => withGraphNamed(one, original);
  const was = viewOf(before).view;
  const { trigger } = original;
  // Several triggers have the same word. A later checkpoint gets its own; the original keeps what it says.
  const itself = trigger === undefined || checkpoint.id === original["checkpoint_id"];
  const from = itself ? was : { ...was, trigger };
  return { document: patchDocument({ original, before: named(from), after: named(view) }), losses };
}

/**
 * For crunch's own files only the index holds the trigger. The file itself remains unchanged: with a trigger it would be
 * another document, and a repeated import would create another run.
 */
function dropUnstated(checkpoint: ExternalCheckpoint, original: JsonObject): ExternalCheckpoint {
  const itself = checkpoint.id === original["checkpoint_id"] && (original["trigger"] ?? null) === null;
  return itself ? { ...checkpoint, trigger: "import" } : checkpoint;
}

/** Uses the original's name for the graph, so that the document never has two members for it. */
function withGraphNamed(view: JsonObject, original: JsonObject): JsonObject {
  if ((original["execution_graph"] ?? null) !== null || !isJsonObject(original["graph_state"])) return view;
  return Object.fromEntries(
    Object.entries(view).map(([name, value]) => [name === "execution_graph" ? "graph_state" : name, value]),
  );
}

/** Decodes a document that is not, or no longer, a file. */
function decodeOriginal(document: JsonObject): ExternalCheckpoint {
  const source = { format: "crunch-yaml", file: "a checkpoint" } as const;
  const fail = (path: string, why: string) => invalidDocument(source, { path, why });
  return decodeCrunchDocument({ document, source, remarks: [], fail });
}

const REASONS: LossReasons = {
  id: "It had none, or one that cannot name a file, and was given another",
  work: "A crunch checkpoint has an issue or nothing to work on",
  workflow: "Crunch has one workflow, its own",
  "position.workflow": "Crunch has one workflow, its own",
  "position.stage": "Crunch has no phase of this name: it is written as the one that fits",
  trigger: "Crunch has no such trigger: it is written as the one that fits",
  "position.attempts": "Crunch counts the attempts of the current phase only",
  "position.graph": "Crunch keeps no attempts, retries, approvals given, nor what may be run twice",
  "inputs.issue": "Crunch has the run's own issue, without its state and the time of its last change",
  files: "Crunch has the branch and the names of the changed files only",
  "extensions.recovery": "It described an earlier position of the run",
  "extensions.crunch": "It described an earlier position of the run",
  conversation: "Crunch has the name of the session only",
};

/** Crunch's members that are filled from other planes come back as extensions, which is also reported. */
function lossesOf(given: ExternalCheckpoint, document: JsonObject): readonly Loss[] {
  const back = decodeOriginal(document);
  const filled = Object.keys(back.planes.extensions).filter((name) => !Object.hasOwn(given.planes.extensions, name));
  return [
    ...listLosses(given, back, REASONS),
    ...filled.map((name) => ({ path: `extensions.${name}`, why: "It contains crunch's fields of the other planes" })),
  ];
}

/** Drops what the original says about its position, which is wrong once the run has advanced. */
function withoutStale(checkpoint: ExternalCheckpoint, before: ExternalCheckpoint): ExternalCheckpoint {
  const { position, extensions } = checkpoint.planes;
  const was = before.planes;
  const moved = position.stage !== was.position.stage;
  const stepped = moved || !sameGraph(position.graph, was.position.graph);
  const stale = (name: string): boolean => sameJson(extensions[name] ?? null, was.extensions[name] ?? null);
  const { recovery, crunch, ...rest } = extensions;
  const { phase_started_at: _, current_state_label: __, ...kept } = asJsonObject(field(extensions, "crunch"));
  const own = moved && stale("crunch") ? kept : crunch;
  const pruned: JsonObject = {
    ...rest,
    ...(recovery === undefined || (stepped && stale("recovery")) ? {} : { recovery }),
    ...(own === undefined ? {} : { crunch: own }),
  };
  return { ...checkpoint, planes: { ...checkpoint.planes, extensions: pruned } };
}

/** A store may return the fields of a graph in another order. */
function sameGraph(one: Graph | null, other: Graph | null): boolean {
  // A graph is JSON, but TypeScript does not accept an interface without an index signature as Json.
  return sameJson(one as object | null as Json, other as object | null as Json);
}

/** Everything crunch can express about a checkpoint, with its members in their order. */
function viewOf(checkpoint: ExternalCheckpoint): { readonly view: JsonObject; readonly losses: readonly Loss[] } {
  const { planes, work, createdAt, described } = checkpoint;
  const { position, inputs, extensions } = planes;
  const own = asJsonObject(field(extensions, "crunch"));
  const number = work.kind === "issue" ? work.number : (inputs.issue?.number ?? null);
  const { fitted, losses } = fit(
    {
      checkpoint_id: "",
      version: "1.0",
      ...(createdAt === null ? {} : { created_at: createdAt }),
      issue_number: number,
      session_id: field(own, "session_id") ?? planes.conversation?.session ?? null,
      // An imported checkpoint has no trigger in crunch, so none is written.
      ...(checkpoint.trigger === "import" ? {} : { trigger: triggerWord(checkpoint.trigger) }),
      workflow_state: stateMember(checkpoint, own),
      issue_snapshot: { ...encodeIssue(checkpoint, own), ...described?.issue },
      team_state: field(extensions, "team") ?? {},
      execution_graph: position.graph === null ? (field(extensions, "graph") ?? {}) : encodeGraph(position.graph),
      agent_outputs: field(extensions, "outputs") ?? {},
      acp_state: field(extensions, "messages") ?? {},
      knowledge_context: field(extensions, "knowledge") ?? {},
      files_modified: field(extensions, "files") ?? changedFiles(checkpoint),
      recovery_info: field(extensions, "recovery") ?? defaultRecovery(position),
      ...(described === undefined ? {} : { ...described.members, ...presentMembers(checkpoint) }),
    },
    checkpoint,
  );
  const named = checkpoint.id !== null && isFileName(checkpoint.id) ? checkpoint.id : null;
  const id = named ?? makeId({ phase: described?.stage ?? position.stage, createdAt, document: fitted });
  return { view: { ...fitted, checkpoint_id: id }, losses };
}

/**
 * Extensions can hold anything: a value under one of crunch's names may not fit, and would make the file unreadable.
 */
function fit(
  view: JsonObject,
  checkpoint: ExternalCheckpoint,
): { readonly fitted: JsonObject; readonly losses: readonly Loss[] } {
  const losses: Loss[] = [];
  let fitted = view;
  for (const member of Object.keys(MEMBERS)) {
    const misfit = crunchDocument({ ...fitted, checkpoint_id: "CP-none" });
    if (misfit === null) break;
    const found = misfit.path.split("/")[1] ?? member;
    losses.push({ path: MEMBERS[found] ?? found, why: `crunch wants ${misfit.expected} at ${misfit.path}` });
    fitted = { ...fitted, [found]: substitute(found, checkpoint) };
  }
  return { fitted, losses };
}

/** The source of each member that may not fit. */
const MEMBERS: Readonly<Record<string, string>> = {
  session_id: "extensions.crunch",
  workflow_state: "extensions.crunch",
  issue_snapshot: "extensions.crunch",
  team_state: "extensions.team",
  execution_graph: "extensions.graph",
  agent_outputs: "extensions.outputs",
  acp_state: "extensions.messages",
  knowledge_context: "extensions.knowledge",
  files_modified: "extensions.files",
  recovery_info: "extensions.recovery",
};

function substitute(member: string, checkpoint: ExternalCheckpoint): Json {
  if (member === "workflow_state") return stateMember(checkpoint, {});
  if (member === "issue_snapshot") return encodeIssue(checkpoint, {});
  if (member === "files_modified") return changedFiles(checkpoint);
  if (member === "recovery_info") return defaultRecovery(checkpoint.planes.position);
  return member === "session_id" ? null : {};
}

function stateMember(checkpoint: ExternalCheckpoint, own: JsonObject): JsonObject {
  const { stage, attempts } = checkpoint.planes.position;
  const started = field(own, "phase_started_at");
  return {
    current_phase: phaseWord(stage),
    current_state_label: field(own, "current_state_label") ?? labelWord(stage),
    ...(started === undefined ? {} : { phase_started_at: started }),
    ...(Object.hasOwn(attempts, stage) ? { phase_attempt: attempts[stage] ?? 0 } : {}),
  };
}

function encodeIssue(checkpoint: ExternalCheckpoint, own: JsonObject): JsonObject {
  const { files, inputs } = checkpoint.planes;
  const { issue } = inputs;
  const known = ["title", "body", "labels"].flatMap((name) => {
    const value = field(own, name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...(issue === null ? Object.fromEntries(known) : { title: issue.title, body: issue.body, labels: issue.labels }),
    assignees: issue?.assignees ?? field(own, "assignees") ?? [],
    branch: field(own, "branch") ?? branchOf(files),
  };
}

/** For a run in progress, present values take precedence over the imported document. */
function presentMembers(checkpoint: ExternalCheckpoint): JsonObject {
  const { files } = checkpoint.planes;
  return files === null ? {} : { files_modified: changedFiles(checkpoint) };
}

function branchOf(files: FilesPlane | null): string | null {
  return files?.branch?.replace(/^refs\/heads\//, "") ?? null;
}

function changedFiles(checkpoint: ExternalCheckpoint): Json {
  return (checkpoint.planes.files?.artifacts ?? []).map(({ path, status }) => ({ path, status, staged: false }));
}

export type DecodeCrunch = (file: ExternalFile) => Decoded;

/**
 * A decoder for repeated reads of one directory: an unchanged file is not parsed again. Only the bytes decide, never
 * time or size. A file that could not be read is tried each time.
 */
export function cachedDecoder(): {
  readonly decode: DecodeCrunch;
  readonly keepOnly: (files: readonly ExternalFile[]) => void;
} {
  const known = new Map<string, { readonly file: ExternalFile; readonly decoded: Decoded }>();
  return {
    decode(file) {
      const before = known.get(file.path);
      if (before !== undefined && sameFile(before.file, file)) return before.decoded;
      const decoded = decodeCrunch(file);
      known.set(file.path, { file, decoded });
      return decoded;
    },
    keepOnly(files) {
      const there = new Set(files.map(({ path }) => path));
      for (const path of known.keys()) if (!there.has(path)) known.delete(path);
    },
  };
}

function sameFile(a: ExternalFile, b: ExternalFile): boolean {
  if (a.compression !== b.compression || a.bytes.length !== b.bytes.length) return false;
  for (let at = 0; at < a.bytes.length; at += 1) if (a.bytes[at] !== b.bytes[at]) return false;
  return true;
}
