import type { Json } from "../json.ts";
import { count, list, object, parseShape, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { CONFLICT_SHAPE, ESCALATION_SHAPE, POSITION_SHAPE, RESOLUTION_SHAPE } from "./conflict-shape.ts";
import type { CrunchEvent } from "./crunch-event.ts";
import { BASE_SHAPE, ISSUE_SHAPE, OUTPUT_SHAPE, PULL_REQUEST_SHAPE } from "./crunch-state.ts";
import { CAPTURE_SHAPE, KNOWLEDGE_ENTRY_SHAPE } from "./knowledge-shape.ts";
import { MESSAGE_SHAPE } from "./message-shape.ts";
import { SETTINGS_SHAPE } from "./settings.ts";
import { PHASE_SHAPE, TEAM_SHAPE, TEAM_TASK_SHAPE } from "./team.ts";

/** What a journal holds of a crunch run. STORE_CORRUPT with the path of what is wrong. */
export function parseCrunchEvent(value: Json): CrunchEvent {
  return parseShape({ shape: EVENT, value, what: "An event of a crunch run" });
}

type Of<K extends CrunchEvent["kind"]> = Extract<CrunchEvent, { readonly kind: K }>;

/** `tagged` has looked at the word already. */
const kind: Shape<never> = () => null;
const task: Shape<Of<"task_moved">> = (value) => TEAM_TASK_SHAPE(value) ?? named(value);
const named = object<{ readonly task: string }>({ task: text });

const EVENT: Shape<CrunchEvent> = tagged<CrunchEvent, "kind">("kind", {
  settings_read: object<Of<"settings_read">>({ kind, settings: SETTINGS_SHAPE }),
  issue_read: object<Of<"issue_read">>({ kind, issue: ISSUE_SHAPE }),
  branch_made: object<Of<"branch_made">>({ kind, branch: text, base: BASE_SHAPE }),
  phase_entered: object<Of<"phase_entered">>({ kind, phase: PHASE_SHAPE, at: text }),
  team_composed: object<Of<"team_composed">>({ kind, team: TEAM_SHAPE }),
  task_moved: task,
  output_delivered: object<Of<"output_delivered">>({ kind, output: OUTPUT_SHAPE }),
  message_sent: object<Of<"message_sent">>({ kind, message: MESSAGE_SHAPE }),
  message_delivered: object<Of<"message_delivered">>({ kind, id: text }),
  message_withdrawn: object<Of<"message_withdrawn">>({ kind, id: text, why: text }),
  conflict_detected: object<Of<"conflict_detected">>({ kind, conflict: CONFLICT_SHAPE }),
  positions_taken: object<Of<"positions_taken">>({
    kind,
    conflict: text,
    round: count,
    positions: list(POSITION_SHAPE),
  }),
  conflict_escalated: object<Of<"conflict_escalated">>({ kind, conflict: text, escalation: ESCALATION_SHAPE }),
  conflict_resolved: object<Of<"conflict_resolved">>({ kind, conflict: text, resolution: RESOLUTION_SHAPE }),
  knowledge_injected: object<Of<"knowledge_injected">>({
    kind,
    phase: PHASE_SHAPE,
    entries: list(KNOWLEDGE_ENTRY_SHAPE),
    at: text,
  }),
  capture_planned: object<Of<"capture_planned">>({ kind, capture: CAPTURE_SHAPE }),
  knowledge_captured: object<Of<"knowledge_captured">>({ kind, name: text, at: text }),
  pull_request_opened: object<Of<"pull_request_opened">>({ kind, pullRequest: PULL_REQUEST_SHAPE }),
});
