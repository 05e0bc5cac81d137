import type { Conflict, ConflictPosition, Escalation, Resolution } from "./conflict.ts";
import type { AgentOutput, CrunchBase, CrunchIssue, PullRequest } from "./crunch-state.ts";
import type { KnowledgeEntry, PendingCapture } from "./knowledge.ts";
import type { Message } from "./message.ts";
import type { Phase } from "./phase.ts";
import type { CrunchSettings } from "./settings.ts";
import type { TaskStatus, Team } from "./team.ts";

/** All that changes a crunch run's state while it is in a phase. Each is JSON and goes into the journal as it is. */
export type CrunchEvent =
  | { readonly kind: "settings_read"; readonly settings: CrunchSettings }
  | { readonly kind: "issue_read"; readonly issue: CrunchIssue }
  | { readonly kind: "branch_made"; readonly branch: string; readonly base: CrunchBase }
  | { readonly kind: "phase_entered"; readonly phase: Phase; readonly at: string }
  | { readonly kind: "team_composed"; readonly team: Team }
  | {
      readonly kind: "task_moved";
      readonly task: string;
      readonly agent: string;
      readonly phase: Phase;
      readonly status: TaskStatus;
    }
  | { readonly kind: "output_delivered"; readonly output: AgentOutput }
  /** Also for answers: they name the message that they answer. */
  | { readonly kind: "message_sent"; readonly message: Message }
  | { readonly kind: "message_delivered"; readonly id: string }
  | { readonly kind: "message_withdrawn"; readonly id: string; readonly why: string }
  | { readonly kind: "conflict_detected"; readonly conflict: Conflict }
  | {
      readonly kind: "positions_taken";
      readonly conflict: string;
      /** From 1. */
      readonly round: number;
      readonly positions: readonly ConflictPosition[];
    }
  | { readonly kind: "conflict_escalated"; readonly conflict: string; readonly escalation: Escalation }
  | { readonly kind: "conflict_resolved"; readonly conflict: string; readonly resolution: Resolution }
  | {
      readonly kind: "knowledge_injected";
      readonly phase: Phase;
      readonly entries: readonly KnowledgeEntry[];
      readonly at: string;
    }
  | { readonly kind: "capture_planned"; readonly capture: PendingCapture }
  | { readonly kind: "knowledge_captured"; readonly name: string; readonly at: string }
  | { readonly kind: "pull_request_opened"; readonly pullRequest: PullRequest };
