import type { CheckpointSwitches } from "../core/checkpoint/checkpoint-switches.ts";
import type { Planes } from "../core/checkpoint/checkpoint.ts";
import type { CrunchTriggers } from "../core/crunch/triggers.ts";
import type { ErrorPolicy } from "../core/error-policy/policy.ts";
import type { JsonObject } from "../core/json.ts";
import type { FoundSecret } from "../core/mask.ts";
import type { PriceTable } from "../core/position/price.ts";
import type { Run } from "../core/run/run.ts";
import type { Agent } from "../ports/agent.ts";
import type { Branches } from "../ports/branch.ts";
import type { Commands } from "../ports/command.ts";
import type { SyntaxGate } from "../ports/gate.ts";
import type { Outputs } from "../ports/output.ts";
import type { Forge } from "../ports/forge.ts";
import type { Parts } from "./parts.ts";
import type { Tape } from "./record/tape.ts";
import type { Player } from "./replay/player.ts";

/** What a workflow works with, beyond what checkpoints need. */
export interface WorkParts extends Parts {
  /** By the part before the colon; USAGE with the known names for any other. */
  readonly agent: (provider: string) => Agent;
  /** An agent that gives no sign of life for this long hangs; null: it may be silent for ever. */
  readonly agentIdleMs: number | null;
  /** Also a checkpoint whenever the run has gone on for so long without one; null: only where stages take them. */
  readonly checkpointEveryMs: number | null;
  readonly checkpoints: CheckpointSwitches;
  /** What is done about failed agent calls. */
  readonly errorPolicy: ErrorPolicy;
  /** What tokens cost where an agent tells no money. */
  readonly prices: PriceTable;
  /** What follows a change in the user's main checkout during an agent call; absent: it is not watched. */
  readonly mainCheckout?: "ask" | "report";
  /**
   * Why this agent may not be called in this worktree: the user has not consented to what it would execute there. null: it may. The run then
   * waits for the user. Absent: every call may be made.
   */
  readonly refuseCall?: (call: { readonly agent: string; readonly worktree: string }) => Promise<string | null>;
  /** null: no forge is configured or could be told from the remote. */
  readonly forge: Forge | null;
  readonly branches: Branches;
  readonly commands: Commands;
  readonly syntax: SyntaxGate;
  readonly outputs: (root: string) => Outputs;
  /** Where an agent call's raw output goes, for `holdfast logs`; lines of one call, appended. */
  readonly agentLog: (params: AgentCallKey) => AgentLog;
  /** Where a call's result waits until the journal has it, so that a process that dies in between has not paid for nothing. */
  readonly agentAnswer: (params: AgentCallKey) => AnswerFile;
  /**
   * A run as the document that older tools of the impl workflow read, whole with the fields of the one that it was imported from. Handed in
   * because formats are none of a workflow's business; the same writer that `holdfast export` has.
   */
  readonly implDocument: (params: ImplDocumentParams) => string;
  /**
   * Which checkpoints a crunch run takes and shows, as `.claude/checkpoint-config.yaml` says at this moment. FORMAT_INVALID names the line that cannot
   * be meant.
   */
  readonly crunchTriggers: () => Promise<CrunchTriggers>;
  /** Of a run that is recorded: what it asks of the outside is noted there. Of one run each. */
  readonly tape?: Tape;
  /** Of a replay: steps are answered from the record, and nothing outside is touched. */
  readonly player?: Player;
  /** Hides secrets, those of the environment included. Absent: by their shape alone. */
  readonly masking?: { mask(text: string): string; find(text: string): readonly FoundSecret[] };
  /** For tests: after each commit, load the run from the store and compare it with the state in memory. Absent: no. */
  readonly checksState?: boolean;
  /** Waits, or rejects with the signal's reason. Injected so that tests need not wait. */
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

export interface ImplDocumentParams {
  readonly run: Pick<Run, "workflow" | "work">;
  readonly planes: Pick<Planes, "position" | "inputs" | "extensions"> & { readonly values: JsonObject };
  readonly worktree: string;
  /** A run that simplifies is of version 2, also before it comes to that. */
  readonly simplifies: boolean;
  /** ISO 8601 UTC. */
  readonly at: string;
}

export interface AgentCallKey {
  readonly run: string;
  readonly visit: number;
  readonly step: string;
}

export interface AnswerFile {
  /** Durable when it returns. A text that cannot be written is left out: it costs another call at worst. */
  write(text: string): void;
  read(): string | null;
  remove(): void;
}

export interface AgentLog {
  readonly path: string;
  append(line: string): void;
  close(): Promise<void>;
}
