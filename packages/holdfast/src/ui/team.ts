/** The messages, conflicts and votes of the agents of a crunch run, as the page shows them. */
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { JournalEntry } from "@holdfast/core/journal";
import type { Team, TeamConflict, TeamMessage } from "@holdfast/dashboard/api";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError } from "@holdfast/platform/error";
import type { Conflict, Message } from "@holdfast/workflows/crunch/messages";
import { type CrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "@holdfast/workflows/crunch/state";

const MAX_MESSAGES = 200;
const MAX_CONFLICTS = 50;
const MAX_TEXT = 2000;

type Values = Checkpoint["planes"]["context"]["values"];
type Entry = Pick<JournalEntry, "kind" | "body">;

/** null: no team works on the run, or nothing was said yet. */
export async function readTeam(handle: Pick<RunHandle, "log">, newest: Checkpoint | undefined): Promise<Team | null> {
  if (newest?.planes.position.workflow !== "crunch") return null;
  return teamOf(newest.planes.context.values, await Array.fromAsync(handle.log({ after: newest.entry })));
}

/** Pure. Of the values of the newest checkpoint of a crunch run, and the entries after it; null: nothing was said yet. */
export function teamOf(values: Values, since: readonly Entry[]): Team | null {
  const state = stateNow(values, since);
  if (state === null) return null;
  const { conflicts, messages } = state;
  if (conflicts.length === 0 && messages.records.length === 0) return null;
  return {
    conflicts: conflicts.slice(-MAX_CONFLICTS).map(conflictOf),
    messages: messages.records.slice(-MAX_MESSAGES).map(({ message, status }) => messageOf(message, status.kind)),
  };
}

/** null: it cannot be read, which `verify` reports. */
function stateNow(values: Values, since: readonly Entry[]): CrunchState | null {
  try {
    const events = since
      .filter(({ kind, body }) => kind === "step.finished" && body["recorded"] === true)
      .map(({ body }) => parseCrunchEvent(body["result"] ?? null));
    return events.reduce(reduceCrunch, parseCrunchState(values));
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

function messageOf(message: Message, status: TeamMessage["status"]): TeamMessage {
  const { from, to, type, timestamp } = message;
  return { at: timestamp, from, to, kind: type.toLowerCase(), status, text: cut(textOf(message)) };
}

function textOf(message: Message): string {
  switch (message.type) {
    case "REQUEST":
      return message.payload.node === null
        ? message.payload.action
        : `${message.payload.node}: ${message.payload.action}`;
    case "RESPONSE": {
      const { status, result, findings } = message.payload;
      const found = findings.map(({ severity, title, location }) => `\n${severity} ${title}${at(location)}`);
      return `${status.toLowerCase()}: ${result.summary}${found.join("")}`;
    }
    case "HANDOFF":
      return `to ${message.payload.recommendedAgent}: ${message.payload.reason}`;
    case "ESCALATE":
      return [...new Set([message.payload.reason, message.payload.decisionNeeded])].join("\n");
    case "BROADCAST":
      return message.payload.message;
    case "VOTE":
      return `${message.payload.choice}: ${message.payload.rationale}`;
  }
}

function at(location: string): string {
  return location === "" ? "" : ` (${location})`;
}

function conflictOf({ id, topic, detectedAt, choices, rounds, escalation, resolution }: Conflict): TeamConflict {
  return {
    id,
    topic: cut(topic),
    at: detectedAt,
    choices: choices.map(cut),
    votes: rounds.flatMap((positions, round) =>
      positions.map(({ agent, choice, rationale, confidence, veto }) => ({
        round: round + 1,
        agent,
        choice: cut(choice),
        why: cut(rationale),
        confidence,
        veto: veto === null ? null : cut(`${veto.severity.toLowerCase()} veto of "${veto.target}": ${veto.reason}`),
      })),
    ),
    asks: escalation === null || resolution !== null ? null : cut(escalation.question),
    outcome:
      resolution === null
        ? null
        : {
            how: resolution.how === "person" ? "you" : resolution.how,
            choice: cut(resolution.choice),
            why: cut(resolution.reasoning),
            against: resolution.dissent.map(({ agent, choice }) => cut(`${agent}: ${choice}`)),
          },
  };
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
