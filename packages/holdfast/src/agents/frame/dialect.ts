import type {
  AgentCapabilities,
  AgentEvent,
  AgentProbe,
  AgentSessions,
  AgentTask,
  AgentUsage,
  FailureCause,
  SessionReader,
} from "../../ports/agent.ts";
import type { ProcessResult } from "../../system/subprocess.ts";
import type { AgentExit } from "../agent-process.ts";
import type { UuidVersion } from "./choose-session.ts";

/**
 * What one maker's command line says and understands; createCliAgent does the rest: finds the program, chooses a session where that can be
 * done and tells it before the start, runs it with the mark and the watchdog, folds its lines, judges its end.
 * `read` and `end` are pure; the others may look at the agent's own files. Nothing writes them, but `plan` where an agent would lose a session by itself.
 */
export interface CliDialect<State> {
  /** What stands before the colon of `provider:model`. */
  readonly name: string;
  /** As messages call it. */
  readonly title: string;
  /** As PATH knows it. */
  readonly program: string;
  /** What to do where it is missing. */
  readonly install: string;
  readonly capabilities: AgentCapabilities;
  readonly sessions: AgentSessions | null;
  readonly records?: SessionReader;
  /** The watchdog where a task names none: longer than the agent is ever silent while it works. Nothing hangs for good. */
  readonly idleMs: number;
  /** What the program finds in its environment whatever it is started for. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * The program itself, where what PATH knows is a wrapper: a second process that a kill would leave behind. What follows it goes before
   * all arguments.
   */
  native?(path: string): readonly [string, ...string[]];
  /** Which ids it takes for a session; by default "8". */
  readonly sessionIds?: UuidVersion;
  /** Was this session id used before? Only asked of agents that can choose one. */
  isTaken?(session: string, call: CliCall): boolean;
  plan(call: CliCall): CliPlan<State>;
  /** One line of standard output. Never throws: a line that says nothing changes nothing. */
  read(state: State, line: string): CliStep<State>;
  /** Does a line of standard error say only that the agent waits and tries again? Such a line is no sign of life for the watchdog. */
  isWaiting?(line: string): boolean;
  /** Does a line of standard error say that the model refused the prompt because it is too long, while the agent itself continues? */
  isOverflow?(line: string): boolean;
  /** What the lines came to, whatever the exit. */
  end(state: State, exit: AgentExit, call: CliCall): CliEnd;
  /** Of this call alone, also when it was killed. Nothing of the agent runs any more. */
  usage(state: State, call: CliCall): AgentUsage;
  /** `run` starts the program with these arguments, our environment and no input; nothing here may cost a token. */
  probe(run: (args: readonly string[]) => Promise<ProcessResult>): Promise<AgentProbe>;
}

export interface CliCall {
  readonly task: AgentTask;
  /** Given to go on with, or chosen for a new one; null: the agent chooses and tells. With `task.forkAt`, the new one. */
  readonly session: string | null;
  /** The user's own arguments for the program. */
  readonly extra: readonly string[];
  /** What the program will find in its environment, less the plan's own. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  now(): number;
}

export type CliPlan<State> =
  | {
      readonly kind: "start";
      readonly args: readonly string[];
      readonly input: string;
      /** Wins over the task's. */
      readonly env: Readonly<Record<string, string>>;
      readonly state: State;
    }
  /** Nothing was started, nothing was spent. */
  | ({ readonly kind: "refused" } & CliFailure);

export interface CliStep<State> {
  readonly state: State;
  /** The raw event of the line is the frame's. A session is told once, however often it stands here. */
  readonly events: readonly AgentEvent[];
  /** The line says only that the agent waits and tries again: no sign of life for the watchdog. */
  readonly waiting?: boolean;
}

export type CliEnd =
  /** No terminal event came. */
  | { readonly kind: "open" }
  /** Nor did one, and the last that it said is what it waits for: that is why it was silent, where it was ended for silence. */
  | ({ readonly kind: "waiting" } & CliFailure)
  | { readonly kind: "completed"; readonly text: string }
  | ({ readonly kind: "failed" } & CliFailure);

export interface CliFailure {
  readonly cause: FailureCause;
  readonly message: string;
  readonly hint: string | null;
  /** ISO 8601. */
  readonly until: string | null;
}
