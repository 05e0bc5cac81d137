// The members of a crunch document for a run that Holdfast executes: crunch's own members, and Holdfast's member with
// the full state.

import { isWaiting, stateOf } from "@holdfast/core/graph-state";
import type { Planes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject, sha256 } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { Run } from "@holdfast/core/run";
import { HOLDFAST_MEMBER, defaultRecovery, encodeGraph } from "@holdfast/formats/crunch-document";
import { phaseWord } from "@holdfast/formats/crunch-words";
import { uuidOf } from "@holdfast/formats/document";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { oneLine } from "../text.ts";
import { type PendingCapture, capturedEntries } from "./knowledge.ts";
import { awaitingMessages, pendingMessages } from "./message-log.ts";
import { isCrunchStage, stageAfter } from "./options.ts";
import { parsePhase, replaceStateLabel, stateLabel } from "./phases.ts";
import { type AgentOutput, type CrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "./state.ts";
import { type Team, memberCounts } from "./team.ts";

/** A checkpoint of a crunch run that Holdfast executes. Its values are crunch's own state. */
interface CrunchRun {
  readonly state: CrunchState;
  /** The phase of the issue; for an ended run, the phase in which it ended. */
  readonly phase: string;
  /** The position without a graph that an earlier phase left behind. */
  readonly position: Position;
}

/** Adds what a document of the run says beyond its planes. Another checkpoint is returned unchanged. */
export function describeCrunchRun(
  checkpoint: ExternalCheckpoint,
  run: Pick<Run, "id" | "createdAt">,
): ExternalCheckpoint {
  const live = readCrunchRun(checkpoint);
  if (live === null) return checkpoint;
  const { planes } = checkpoint;
  const members = { session_id: sessionOf(run, planes), ...documentMembers(live, planes) };
  return { ...checkpoint, described: { stage: live.phase, issue: issueMember(live, planes), members } };
}

/** The session of the imported document, or an id that is the same in every document of the run. */
function sessionOf({ id, createdAt }: Pick<Run, "id" | "createdAt">, { extensions }: Planes): string {
  const imported = isJsonObject(extensions["crunch"]) ? extensions["crunch"]["session_id"] : undefined;
  if (typeof imported === "string") return imported;
  return uuidOf(sha256(JSON.stringify([id, createdAt])));
}

/**
 * The issue as the run knows it, with the state label that the phase sets at the forge, so that crunch's check of the
 * labels finds no difference. The branch is the run's own, even before a worktree has it checked out.
 */
function issueMember({ state, phase }: CrunchRun, { inputs }: Planes): JsonObject {
  const issue = inputs.issue ?? state.issue;
  const known = parsePhase(phase);
  const branch = state.branch === null ? {} : { branch: state.branch };
  if (issue === null) return branch;
  const { title, body, labels, assignees } = issue;
  return {
    title,
    body,
    labels: known === null ? labels : replaceStateLabel(labels, known),
    ...(assignees === undefined ? {} : { assignees }),
    ...branch,
  };
}

/** Returns null if the checkpoint belongs to another workflow or to a document without this state. */
function readCrunchRun({ workflow, planes }: Pick<ExternalCheckpoint, "workflow" | "planes">): CrunchRun | null {
  if (workflow !== "crunch" || !Object.hasOwn(planes.context.values, "messages")) return null;
  const { position } = planes;
  const state = readState(planes.context.values, position.stageAttempt.unreduced ?? []);
  if (state === null) return null;
  const phase = parsePhase(position.stage) ?? state.phases.at(-1)?.phase ?? position.stage;
  const left = position.stageAttempt.number > 0 && position.stageAttempt.graph !== true;
  return { state, phase, position: left ? { ...position, graph: null } : position };
}

/**
 * Applies recorded events that are not part of the values yet. The workflow reduces them only when it resumes the run.
 */
function readState(values: JsonObject, unreduced: readonly Json[]): CrunchState | null {
  try {
    return unreduced.reduce<CrunchState>(
      (state, event) => reduceCrunch(state, parseCrunchEvent(event)),
      parseCrunchState(values),
    );
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/**
 * Encodes everything a run needs to continue. Crunch's own readers ignore this member. Crunch's members hold the same
 * data as far as they go; if another tool changed one of those, the decoder uses the changed one.
 */
function encodeHoldfastMember({ state, position }: CrunchRun): JsonObject {
  const { stageAttempt: _steps, ...rest } = position;
  // Both are JSON, but TypeScript does not accept an interface without an index signature as Json.
  return { version: 1, position: rest as object as JsonObject, values: state as object as JsonObject };
}

/** Derives crunch's own members from the run's state, so that none can be out of date. */
function documentMembers(live: CrunchRun, planes: Planes): JsonObject {
  const { state, position } = live;
  return {
    workflow_state: stateMember(live),
    team_state: teamMember(live),
    execution_graph: position.graph === null ? {} : encodeGraph(position.graph),
    agent_outputs: outputsMember(state),
    acp_state: {
      pending_messages: pendingMessages(state.messages).map(({ id }) => id),
      awaiting_response: awaitingMessages(state.messages).map(({ id }) => id),
      conflicts_in_progress: state.conflicts.filter(({ resolution }) => resolution === null).map(({ id }) => id),
    },
    knowledge_context: {
      injected_entries: [...new Set(state.knowledge.injected.flatMap(({ entries }) => entries))],
      captured_entries: [...capturedEntries(state.knowledge)],
      pending_captures: state.knowledge.pending.map(captureMember),
    },
    recovery_info: recoveryMember(live, planes),
    [HOLDFAST_MEMBER]: encodeHoldfastMember(live),
  };
}

/** An imported capture of which only the id is known stays that id. */
function captureMember({ name, type, content, tags }: PendingCapture): Json {
  return content === "" ? name : { name, type, content, tags };
}

function stateMember({ state, phase }: CrunchRun): JsonObject {
  const attempts = state.phases.filter((attempt) => attempt.phase === phase);
  const newest = state.phases.at(-1);
  const here = newest?.phase === phase ? newest : null;
  const known = parsePhase(phase);
  return {
    current_phase: phaseWord(phase),
    current_state_label: known === null ? null : stateLabel(known),
    // A transition led to this phase, but it has not started: it has no start time and is the next attempt.
    ...(here === null ? {} : { phase_started_at: here.startedAt }),
    phase_attempt: here === null ? attempts.length + 1 : here.attempt,
  };
}

function teamMember(live: CrunchRun): JsonObject {
  const team = withPlanned(live);
  if (team === null) return {};
  const { score, level } = team.complexity;
  return {
    team_id: team.id,
    complexity: { score, level },
    members: team.members.map(({ agent, role }) => {
      const { status, completed, pending } = memberCounts(team, agent);
      return { agent, role, status, tasks_completed: completed, tasks_pending: pending };
    }),
  };
}

/**
 * Adds the waiting nodes of the graph as pending tasks, because their agents will do them. In a further round of a
 * phase they count again.
 */
function withPlanned({ state, position, phase }: CrunchRun): Team | null {
  const { team } = state;
  const { graph } = position;
  const known = parsePhase(phase);
  if (team === null || graph === null || known === null) return team;
  const waiting = graph.nodes.filter(({ id }) => isWaiting(stateOf(graph, id)));
  const planned = waiting.map(
    ({ id, agent }) => [`${known}/${id}`, { agent, phase: known, status: "pending" }] as const,
  );
  return { ...team, tasks: { ...team.tasks, ...Object.fromEntries(planned) } };
}

/**
 * Outputs by agent and action. If an agent performed an action for several nodes or phases, each output gets its own
 * name.
 */
function outputsMember(state: CrunchState): JsonObject {
  const byAgent: Record<string, Record<string, Json>> = {};
  for (const output of state.outputs) {
    const actions = (byAgent[output.agent] ??= {});
    const { action, node, phase } = output;
    const names = [action, `${action} (${node})`, `${action} (${phase}/${node})`];
    const name = names.find((one) => !Object.hasOwn(actions, one)) ?? action;
    actions[name] = {
      completed_at: output.completedAt,
      output_summary: output.summary,
      output_location: output.location ?? outputFile(state, output),
      ...(node === "" ? {} : { node }),
    };
  }
  return byAgent;
}

/** Where the layout writes an output that the agent put into no file of its own, relative to the repository. */
function outputFile({ issue }: Pick<CrunchState, "issue">, { phase, node, action }: AgentOutput): string {
  const name = `${phase}-${node || action}`.replaceAll(/[^\w.-]+/g, "-").slice(0, 100);
  return `.claude/crunch/${issue?.number ?? "none"}/outputs/${name}.md`;
}

/** The outputs that the layout writes to files of its own, by path. Their documents name these paths. */
export function outputFiles({ described }: ExternalCheckpoint): ReadonlyMap<string, string> {
  const kept = described?.members[HOLDFAST_MEMBER];
  const values = isJsonObject(kept) && isJsonObject(kept["values"]) ? kept["values"] : null;
  if (values === null) return new Map();
  const state = parseCrunchState(values);
  const own = state.outputs.filter(({ location }) => location === null);
  return new Map(own.map((output) => [outputFile(state, output), `${output.delivered ?? output.summary}\n`]));
}

function recoveryMember(live: CrunchRun, planes: Planes): JsonObject {
  const { position, phase } = live;
  const unmet = unmetPrerequisites(live);
  const stopped = position.stage === "stopped" && isCrunchStage(phase) ? stageAfter(phase) : null;
  const usual = {
    ...defaultRecovery(stopped === null ? { ...position, stage: phase } : { stage: stopped, graph: null }),
    prerequisites_met: unmet.length === 0,
    warnings: [...unmet, ...changedSince(live, planes)],
  };
  const { warnings } = usual;
  if (position.stage === "fatal")
    return { ...usual, can_resume: false, warnings: [position.reason ?? "The run failed", ...warnings] };
  if (position.stage === "done") return { ...usual, can_resume: false, warnings: ["The run is done", ...warnings] };
  return usual;
}

/** What the phase needs and the run does not have. */
function unmetPrerequisites({ state, position, phase }: CrunchRun): readonly string[] {
  const isPrepared = state.issue !== null && state.base !== null && state.branch !== null;
  const { graph } = position;
  const nodes = (graph?.nodes ?? []).map((node) => ({ ...node, status: graph?.states[node.id]?.status ?? "pending" }));
  const delivered = new Set(state.outputs.filter((output) => output.phase === phase).map(({ node }) => node));
  return [
    ...(isPrepared || phase === "enrich" ? [] : ["The issue, its branch or the base is not known"]),
    ...nodes.filter(({ status }) => status === "failed").map(({ id }) => `Node ${id} failed`),
    ...nodes.filter(({ status }) => status === "unknown").map(({ id }) => `The outcome of node ${id} is not known`),
    ...nodes
      .filter(({ id, status, outputs }) => status === "complete" && outputs.length > 0 && !delivered.has(id))
      .map(({ id, outputs }) => `The output of node ${id} is missing: ${outputs.join(", ")}`),
    ...state.conflicts
      .filter(({ resolution }) => resolution === null)
      .map(({ id }) => `Conflict ${id} is not resolved`),
    ...awaitingMessages(state.messages).flatMap((message) =>
      message.type === "ESCALATE" ? [`Waiting for an answer: ${oneLine(message.payload.decisionNeeded, 200)}`] : [],
    ),
  ];
}

/** What differs from the beginning of the run, or is in no commit. */
function changedSince({ state }: CrunchRun, { inputs, files }: Planes): readonly string[] {
  const { issue, base } = state;
  const isEdited =
    issue !== null && inputs.issue !== null && (issue.title !== inputs.issue.title || issue.body !== inputs.issue.body);
  const isMoved = base !== null && inputs.base !== null && inputs.base !== base.commit;
  const count = files?.artifactCount ?? 0;
  const names = (files?.artifacts ?? []).slice(0, NAMED_FILES).map(({ path }) => path);
  const more = count > names.length ? `, and ${count - names.length} more` : "";
  return [
    ...(isEdited ? ["The issue was edited during the run"] : []),
    ...(isMoved ? [`The base ${base.branch} moved during the run`] : []),
    ...(count === 0 ? [] : [`Not committed: ${oneLine(names.join(", "), 500)}${more}`]),
  ];
}

const NAMED_FILES = 10;
