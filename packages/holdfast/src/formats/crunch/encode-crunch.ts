import type { Graph } from "../../core/graph/graph.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Encoded, ForeignCheckpoint, Loss } from "../format.ts";
import { nameLosses, sameJson } from "../name-losses.ts";
import type { Reasons } from "../name-losses.ts";
import { field, patchDocument } from "../patch-document.ts";
import { invalidDocument } from "../refusals.ts";
import { writeJson } from "../write-json.ts";
import { writeYaml } from "../write-yaml.ts";
import { crunchDocument } from "./crunch-document.ts";
import { encodeGraph } from "./crunch-graph.ts";
import { isFileName, makeId } from "./crunch-id.ts";
import { triggerWord } from "./crunch-triggers.ts";
import { decodeDocument, stageOf } from "./decode-crunch.ts";
import { liveCrunch } from "./live-crunch.ts";
import type { LiveCrunch } from "./live-crunch.ts";
import { liveMembers } from "./live-members.ts";
import { usualRecovery } from "./usual-recovery.ts";

export type CrunchEncoding = "yaml" | "json";

/** In crunch's own document where it came from one: only what changed is written anew. */
export function encodeCrunch(checkpoint: ForeignCheckpoint, encoding: CrunchEncoding = "yaml"): Encoded {
  const { document, losses } = documentOf(checkpoint);
  const id = String(document["checkpoint_id"]);
  const issue = document["issue_number"];
  return {
    bytes: encoding === "json" ? writeJson(document) : UTF8.encode(writeYaml(document)),
    path: `.claude/crunch/${typeof issue === "number" ? issue : "none"}/checkpoints/${id}.${encoding}`,
    losses: [...losses, ...lossesOf(checkpoint, document)],
  };
}

const UTF8 = new TextEncoder();

/** The document, and what of ours did not fit where it belongs. */
export function documentOf(checkpoint: ForeignCheckpoint): {
  readonly document: JsonObject;
  readonly losses: readonly Loss[];
} {
  if (checkpoint.original?.format !== "crunch-yaml") {
    const { view, losses } = viewOf(checkpoint);
    return { document: view, losses };
  }
  const { document: original } = checkpoint.original;
  const before = decodeAgain(original);
  const { view, losses } = viewOf(withoutStale(untold(checkpoint, original), before));
  const named = (one: JsonObject): JsonObject => withGraphNamed(one, original);
  return { document: patchDocument({ original, before: named(viewOf(before).view), after: named(view) }), losses };
}

/**
 * Of crunch's own files the index alone tells the trigger. The very file stays as it is: with a trigger in it, it would be another
 * document, and imported again another run.
 */
function untold(checkpoint: ForeignCheckpoint, original: JsonObject): ForeignCheckpoint {
  const itself = checkpoint.id === original["checkpoint_id"] && (original["trigger"] ?? null) === null;
  return itself ? { ...checkpoint, trigger: "import" } : checkpoint;
}

/** Two members for one graph would be one too many. */
function withGraphNamed(view: JsonObject, original: JsonObject): JsonObject {
  if ((original["execution_graph"] ?? null) !== null || !isJsonObject(original["graph_state"])) return view;
  return Object.fromEntries(
    Object.entries(view).map(([name, value]) => [name === "execution_graph" ? "graph_state" : name, value]),
  );
}

/** A document that never was a file, or is not one any more. */
function decodeAgain(document: JsonObject): ForeignCheckpoint {
  const source = { format: "crunch-yaml", file: "a checkpoint" } as const;
  const fail = (path: string, why: string) => invalidDocument(source, { path, why });
  return decodeDocument({ document, source, remarks: [], fail });
}

const REASONS: Reasons = {
  id: "It had none, or one that cannot name a file, and was given another",
  work: "A crunch checkpoint has an issue or nothing to work on",
  workflow: "Crunch has one workflow, its own",
  "position.workflow": "Crunch has one workflow, its own",
  "position.stage": "Crunch needs a phase, and calls validation e2e",
  "position.attempts": "Crunch counts the attempts of the current phase only",
  "position.graph": "Crunch keeps no attempts, retries, approvals given, nor what may be run twice",
  "inputs.issue": "Crunch has the run's own issue, without its state and the time of its last change",
  files: "Crunch has the branch and the names of the changed files only",
  "extensions.recovery": "It told of where the run stood before",
  "extensions.crunch": "It told of where the run stood before",
  conversation: "Crunch has the name of the session only",
};

/** Members of crunch's that are filled from other planes come back as extensions, which is a difference too. */
function lossesOf(given: ForeignCheckpoint, document: JsonObject): readonly Loss[] {
  const back = decodeAgain(document);
  const filled = Object.keys(back.planes.extensions).filter((name) => !Object.hasOwn(given.planes.extensions, name));
  return [
    ...nameLosses(given, back, REASONS),
    ...filled.map((name) => ({ path: `extensions.${name}`, why: "It holds what crunch has of the other planes" })),
  ];
}

/** What the original says of the place where it stood is wrong once the run has gone on. */
function withoutStale(checkpoint: ForeignCheckpoint, before: ForeignCheckpoint): ForeignCheckpoint {
  const { position, extensions } = checkpoint.planes;
  const was = before.planes;
  const moved = position.stage !== was.position.stage;
  const stepped = moved || !sameGraph(position.graph, was.position.graph);
  const stale = (name: string): boolean => sameJson(extensions[name] ?? null, was.extensions[name] ?? null);
  const { recovery, crunch, ...rest } = extensions;
  const { phase_started_at: _, current_state_label: __, ...kept } = objectIn(extensions, "crunch");
  const own = moved && stale("crunch") ? kept : crunch;
  const pruned: JsonObject = {
    ...rest,
    ...(recovery === undefined || (stepped && stale("recovery")) ? {} : { recovery }),
    ...(own === undefined ? {} : { crunch: own }),
  };
  return { ...checkpoint, planes: { ...checkpoint.planes, extensions: pruned } };
}

/** A store may hand out the fields of a graph in another order. */
function sameGraph(one: Graph | null, other: Graph | null): boolean {
  // A graph is JSON; an interface without index signature is not Json to the compiler.
  return sameJson(one as object | null as Json, other as object | null as Json);
}

/** All that crunch can say of a checkpoint, in its members and their order. */
function viewOf(checkpoint: ForeignCheckpoint): { readonly view: JsonObject; readonly losses: readonly Loss[] } {
  const { planes, work, createdAt } = checkpoint;
  const { position, inputs, extensions } = planes;
  const own = objectIn(extensions, "crunch");
  const live = liveCrunch(checkpoint);
  const number = work.kind === "issue" ? work.number : (inputs.issue?.number ?? null);
  const { fitted, losses } = fit(
    {
      checkpoint_id: "",
      version: "1.0",
      ...(createdAt === null ? {} : { created_at: createdAt }),
      issue_number: number,
      session_id: field(own, "session_id") ?? planes.conversation?.session ?? null,
      // Nobody imported it into crunch: it then says as little as crunch itself does.
      ...(checkpoint.trigger === "import" ? {} : { trigger: triggerWord(checkpoint.trigger) }),
      workflow_state: stateMember(checkpoint, own),
      issue_snapshot: issueOf(checkpoint, live === null ? own : { ...own, ...branchMember(live) }),
      team_state: field(extensions, "team") ?? {},
      execution_graph: position.graph === null ? (field(extensions, "graph") ?? {}) : encodeGraph(position.graph),
      agent_outputs: field(extensions, "outputs") ?? {},
      acp_state: field(extensions, "messages") ?? {},
      knowledge_context: field(extensions, "knowledge") ?? {},
      files_modified: field(extensions, "files") ?? changedFiles(checkpoint),
      recovery_info: field(extensions, "recovery") ?? usualRecovery(position),
      ...(live === null ? {} : { ...liveMembers(live), ...presentMembers(checkpoint) }),
    },
    checkpoint,
  );
  const named = checkpoint.id !== null && isFileName(checkpoint.id) ? checkpoint.id : null;
  const id = named ?? makeId({ phase: live?.phase ?? position.stage, createdAt, document: fitted });
  return { view: { ...fitted, checkpoint_id: id }, losses };
}

/** Extensions are anybody's: what stands under a name of crunch's may be something else, and would make the file unreadable. */
function fit(
  view: JsonObject,
  checkpoint: ForeignCheckpoint,
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

/** Where each member that may not fit comes from. */
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

function substitute(member: string, checkpoint: ForeignCheckpoint): Json {
  if (member === "workflow_state") return stateMember(checkpoint, {});
  if (member === "issue_snapshot") return issueOf(checkpoint, {});
  if (member === "files_modified") return changedFiles(checkpoint);
  if (member === "recovery_info") return usualRecovery(checkpoint.planes.position);
  return member === "session_id" ? null : {};
}

function stateMember(checkpoint: ForeignCheckpoint, own: JsonObject): JsonObject {
  const { stage, attempts } = checkpoint.planes.position;
  const started = field(own, "phase_started_at");
  return {
    current_phase: phaseOf(stage),
    current_state_label: field(own, "current_state_label") ?? `state:${phaseOf(stage)}`,
    ...(started === undefined ? {} : { phase_started_at: started }),
    ...(Object.hasOwn(attempts, stage) ? { phase_attempt: attempts[stage] ?? 0 } : {}),
  };
}

function phaseOf(stage: string): string {
  return stage.trim() === "" ? "none" : stageOf(stage);
}

function issueOf(checkpoint: ForeignCheckpoint, own: JsonObject): JsonObject {
  const { files, inputs } = checkpoint.planes;
  const { issue } = inputs;
  const known = ["title", "body", "labels"].flatMap((name) => {
    const value = field(own, name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...(issue === null ? Object.fromEntries(known) : { title: issue.title, body: issue.body, labels: issue.labels }),
    assignees: field(own, "assignees") ?? [],
    branch: field(own, "branch") ?? branchOf(files),
  };
}

/** Of a run that goes on, what it has now comes before what the document said from which it was imported. */
function presentMembers(checkpoint: ForeignCheckpoint): JsonObject {
  const { files, conversation } = checkpoint.planes;
  return {
    ...(conversation === null || conversation.session === null ? {} : { session_id: conversation.session }),
    ...(files === null ? {} : { files_modified: changedFiles(checkpoint) }),
  };
}

/** The run's own branch, also before a worktree stands on it. */
function branchMember({ state }: LiveCrunch): JsonObject {
  return state.branch === null ? {} : { branch: state.branch };
}

function branchOf(files: FilesPlane | null): string | null {
  return files?.branch?.replace(/^refs\/heads\//, "") ?? null;
}

function changedFiles(checkpoint: ForeignCheckpoint): Json {
  return (checkpoint.planes.files?.artifacts ?? []).map(({ path, status }) => ({ path, status, staged: false }));
}

function objectIn(object: JsonObject, key: string): JsonObject {
  const value = field(object, key);
  return isJsonObject(value) ? value : {};
}
