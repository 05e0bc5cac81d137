import type { InputsPlane, ExecutionConfig } from "../core/checkpoint.ts";
import type { Lookup } from "../core/effect-decision.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Amounts, Position } from "../core/position.ts";
import type { ParkedOn, Run } from "../core/run.ts";
import type { StageResult } from "../core/workflow.ts";
import type { Trigger } from "../core/trigger.ts";
import type { AgentUsage, FailureCause } from "../ports/agent.ts";
import type { Workspace } from "../ports/workspace.ts";

/**
 * A stage's work. It may be run again from its beginning after a crash: what it did through the context is not done
 * again, what it did beside it is. So everything that costs, takes time or touches the world goes through the context.
 */
export type StageFunction<S extends JsonObject> = (context: StageContext<S>) => Promise<StageResult<S>>;

export interface StageContext<S extends JsonObject> {
  readonly run: Run;
  /** As it was when the stage was entered, with the steps finished since. */
  readonly position: Position;
  readonly state: S;
  readonly inputs: InputsPlane;
  /** Whatever an import brought and later checkpoints carry along. */
  readonly extensions: JsonObject;
  readonly config: ExecutionConfig;
  /** Aborted by Ctrl+C, `holdfast stop` or a lost lease. Steps should end soon after. */
  readonly signal: AbortSignal;
  readonly workspace: Workspace | undefined;
  /** Milliseconds since the epoch; a step when its value decides something. */
  now(): number;

  /**
   * Runs `fn` once and keeps its result (JSON) in the journal; a name that was finished answers from there. Names are
   * unique in a visit (USAGE). Durable when it resolves. A throw is recorded as a failed try and passed on, and the step may be tried again.
   */
  step<T extends Json>(name: string, fn: (scope: StepScope) => Promise<T> | T, options?: StepOptions): Promise<T>;
  /** Through the ledger: intent → look up → act → receipt. See EffectSpec. */
  effect<R extends Json>(spec: EffectSpec<R>): Promise<EffectOutcome<R>>;
  /** One call of an agent as a step: spend reserved and settled, retries on the provider's account, files checkpointed with the answer. */
  agent(call: AgentCall): Promise<AgentReport>;
  /** A durable timer: after a restart it waits only for the rest. */
  sleep(name: string, milliseconds: number): Promise<void>;
  /** Ends this process's work on the run until the thing named has happened; the stage runs again afterwards. */
  park(parking: { readonly on: ParkedOn; readonly reason: string; readonly until?: string | null }): Promise<never>;
  /** Parks until a person answers with `holdfast approve`; then the answer, for ever the same in this visit. */
  decide(question: Decision): Promise<string>;
  /** A checkpoint in the middle of the stage: files, values so far and finished steps. */
  checkpoint(params: { readonly trigger: Trigger; readonly name?: string }): Promise<void>;
  /** Puts the files back to a checkpoint of this run (what is there now is saved first). A step: done once. */
  restoreFiles(name: string, params: { readonly sequence: number }): Promise<{ readonly tree: string }>;
  /** A line in the journal and in the live view. */
  note(text: string): Promise<void>;
}

export interface StepOptions {
  /**
   * The step changes files in the worktree. They are snapshotted with its result in one commit; killed in the middle,
   * what it half did is saved as a checkpoint and the files are put back before it runs again.
   */
  readonly changesFiles?: boolean;
}

export interface StepScope {
  readonly signal: AbortSignal;
  /** 1 for the first try. */
  readonly attempt: number;
  /** For children, so that they can be found and ended: `<store>/<run>/<visit>/<step>`. */
  readonly mark: string;
}

export interface EffectSpec<R extends Json> {
  /** With run and stage it makes the key. Fixed words, never text a model wrote. */
  readonly purpose: string;
  /** "visit" (default): each visit of the stage may do it anew. "run": once for the whole run, whichever visit. */
  readonly per?: "visit" | "run";
  readonly kind: string;
  readonly target: string;
  /** What is done, as data; its digest is compared when the same key comes again. */
  readonly payload: Json;
  /**
   * "refuse": what it leaves outside does not fit older files (a migrated database, a published version), so a smart rollback goes back
   * behind it only when that is asked for. "adopt" (default): a run that comes here again finds it, and goes on.
   */
  readonly rollback?: "adopt" | "refuse";
  /** Is it there already? "absent" only when the target says so. */
  readonly lookUp: () => Promise<Lookup>;
  readonly act: (key: string) => Promise<EffectOutcome<R>>;
}

/** "failed": the target said no and nothing was changed there. A value, because a stage decides on it. */
export type EffectOutcome<R extends Json> =
  | { readonly kind: "done"; readonly receipt: R }
  | { readonly kind: "failed"; readonly reason: string; readonly detail: Json };

export interface AgentCall {
  /** Step name. */
  readonly name: string;
  readonly role: string;
  readonly prompt: string;
  /** `provider:model`; null: as configured for the run. */
  readonly model: string | null;
  readonly session?: string | null;
  readonly yolo: boolean;
  readonly timeoutMs?: number;
  /** Set aside before the call; default nothing but a check that something is left. */
  readonly estimate?: Amounts;
  /** Facts for agents that are scripts, as HOLDFAST_ variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Edits files in the run's worktree (default yes). */
  readonly changesFiles?: boolean;
  /** Read when the agent has ended, before anything else can change them, and kept with its answer (`.tmp/finalize.txt`). */
  readonly collect?: readonly string[];
}

/** JSON: it is the step's result. */
export interface AgentReport {
  readonly [key: string]: Json;
  readonly outcome: "completed" | "failed";
  readonly cause: FailureCause | null;
  readonly message: string | null;
  readonly text: string;
  readonly session: string | null;
  readonly usage: { readonly [K in keyof AgentUsage]: AgentUsage[K] };
  /** Did the files change? null where that is not known. */
  readonly changed: boolean | null;
  readonly collected: Readonly<Record<string, string | null>>;
  /** Files to collect that are there and could not be read, and why (larger than a megabyte, not UTF-8). */
  readonly uncollected: Readonly<Record<string, string>>;
  readonly milliseconds: number;
}

export interface Decision {
  readonly name: string;
  readonly question: string;
  readonly options: readonly string[];
}
