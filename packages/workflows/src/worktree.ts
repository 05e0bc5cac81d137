// What every workflow stage uses in the run's worktree: its branch, output files, forge, fixed time and the user's gate
// command.

import { type Adapters, runMark } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import { type CommandResult, commandEnding, lastLines } from "@holdfast/core/commands";
import type { Forge } from "@holdfast/core/forge";
import type { JsonObject } from "@holdfast/core/json";
import { checkNames, count, record, text } from "@holdfast/core/options";
import { withRunTrailer } from "@holdfast/core/run";
import type { CheckpointRef, Store } from "@holdfast/core/store";
import type { StageContext, StepScope } from "@holdfast/core/workflow";
import type { Branch } from "@holdfast/core/branch";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";
import { truncateStart } from "./text.ts";

/**
 * Directory for what a run writes next to its work, for people and other tools. The run's state never depends on its
 * content.
 */
export const OUTPUT_DIRECTORY = ".tmp";

/** The run's worktree: its branch and its output files for people. */
export interface Worktree {
  readonly root: string;
  readonly branch: Branch;
  readonly outputs: Outputs;
}

export async function openWorktree({ adapters }: HasParts, context: AnyStageContext): Promise<Worktree> {
  const root = context.workspace?.root;
  if (root !== undefined) {
    const branch = await adapters.branches.of(root);
    return { root, branch: withTrailers(branch, context.run.id), outputs: hiddenOutputs(adapters.outputs(root)) };
  }
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `Run ${context.run.id} has no worktree to work in`,
    hint: `\`holdfast resume ${context.run.id}\` brings it back from its newest checkpoint.`,
  });
}

/** Every commit that Holdfast makes names its run. Commits of an agent are left as they are. */
function withTrailers(branch: Branch, run: string): Branch {
  const named = <P extends { readonly message: string }>(params: P): P => ({
    ...params,
    message: withRunTrailer(params.message, run),
  });
  return {
    ...branch,
    commit: (params) => branch.commit(named(params)),
    commitResolved: (params) => branch.commitResolved(named(params)),
  };
}

/**
 * Hides the output directory before each write. An agent may have removed or replaced it, and visible files would count
 * as the run's work.
 */
function hiddenOutputs(outputs: Outputs): Outputs {
  return {
    read: (path) => outputs.read(path),
    refusal: (path) => outputs.refusal(path),
    remove: (path) => outputs.remove(path),
    hide: (directory) => outputs.hide(directory),
    async write(path, data, permissions) {
      await outputs.hide(OUTPUT_DIRECTORY);
      await outputs.write(path, data, permissions);
    },
  };
}

/** Makes the run wait for the user if no forge is configured. Nothing done so far is lost. */
export async function requireForge({ adapters }: HasParts, context: AnyStageContext): Promise<Forge> {
  if (adapters.forge !== null) return adapters.forge.marked(`${runMark(adapters, context.run.id)}/forge`);
  return await context.wait({
    for: "you",
    reason:
      "There is no forge to take issues from and open pull requests at. Add a remote or configure one, then resume.",
  });
}

/**
 * The time of this stage attempt, recorded as a step. Every re-execution uses the same time, so commits get the same
 * ids.
 */
export async function stageTime(context: AnyStageContext): Promise<string> {
  return await context.step("time", () => new Date(context.now()).toISOString(), { title: "recording the time" });
}

/** The commit of the branch at the beginning of this stage attempt. */
export async function stageHead(context: AnyStageContext, branch: Worktree["branch"]): Promise<string> {
  return await context.step("head", () => branch.head(), { title: "reading the branch" });
}

/** The checkpoint whose files a stage restores if what it tries next fails. */
export async function newestCheckpoint(
  { adapters }: HasParts,
  { run }: AnyStageContext,
): Promise<{ readonly run: string; readonly sequence: number }> {
  const [newest] = await adapters.store.listCheckpoints({ run: run.id, limit: 1 });
  if (newest !== undefined) return { run: run.id, sequence: newest.sequence };
  throw new HoldfastError({ code: "CHECKPOINT_NOT_FOUND", message: `Run ${run.id} has no checkpoint to go back to` });
}

/** Returns null if the checkpoint is deleted or damaged. */
export async function readWholeCheckpoint(store: Store, ref: CheckpointRef): Promise<Checkpoint | null> {
  try {
    const checkpoint = await store.getCheckpoint(ref);
    return checkpoint.quarantined ? null : checkpoint;
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

export function prettyJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

interface HasParts {
  readonly adapters: Adapters;
}

/** A stage context of any workflow, for code that does not use the workflow's state. */
export type AnyStageContext = StageContext<JsonObject>;

export type GateCommand = { readonly command: string; readonly timeoutMs: number };

/** Parses the option `gate`. Accepts a bare string as the command. The default timeout is ten minutes. */
export function parseGate(workflow: string, given: JsonObject): GateCommand | null {
  const value = given["gate"];
  if (value === undefined || value === null) return null;
  const gate = typeof value === "string" ? { command: value } : record(given, "gate");
  checkNames(`${workflow} gate`, gate, ["command", "timeoutMs"]);
  return { command: text(gate, "command"), timeoutMs: count(gate, "timeoutMs", 600_000, 1) };
}

type CommandVerdict =
  /** `output` is null if no gate command is configured. */
  | { readonly kind: "passed"; readonly output: string | null }
  | { readonly kind: "failed"; readonly reason: string; readonly detail: string; readonly output: string };

const OUTPUT_CHARACTERS = 12_000;

/**
 * Runs the user's gate command on the current files, once per stage attempt. Without a gate command the result is
 * `passed`. The last lines of a failing command are shown.
 */
export async function runGateCommand(
  work: HasParts,
  context: AnyStageContext,
  worktree: Worktree,
  params: {
    readonly gate: GateCommand | null;
    /** Commit date for changes that a passing command made, such as those of a formatter; null makes no commit. */
    readonly commitAt: string | null;
  },
): Promise<CommandVerdict> {
  const { gate, commitAt } = params;
  if (gate === null) return { kind: "passed", output: null };
  await context.prepareWorktree();
  const result = await context.step(
    "gate-command",
    async (scope) => {
      const done = await executeGate(work, worktree, gate, scope);
      if (commitAt !== null && hasPassed(done))
        await worktree.branch.commit({
          message: `Changes made by ${gate.command}`,
          at: commitAt,
          exclude: [OUTPUT_DIRECTORY],
        });
      return done;
    },
    { changesFiles: true, title: `running ${gate.command}` },
  );
  return await verdictOf(context, gate, result);
}

type BaseVerdict =
  /** It passed, or the user continues although it failed: `failure` is what the agent gets to know about that. */
  { readonly kind: "continue"; readonly failure: string | null } | { readonly kind: "stop"; readonly reason: string };

/**
 * Runs the gate command on the untouched base, before any agent is paid. If it fails there, no change of an agent is
 * the cause, so the user decides. A branch that already has commits of its own is not the base and is not checked.
 */
export async function runGateOnBase(
  work: HasParts,
  context: AnyStageContext,
  worktree: Worktree,
  params: { readonly gate: GateCommand; readonly base: { readonly branch: string; readonly commit: string } },
): Promise<BaseVerdict> {
  const { gate, base } = params;
  const { branch } = worktree;
  const isBase = await context.step("is-base", async () => (await branch.head()) === base.commit, {
    title: "comparing the branch with its base",
  });
  if (!isBase) return { kind: "continue", failure: null };
  await context.prepareWorktree();
  // Files that a set-up made and that git does not ignore are in no earlier checkpoint.
  if (work.adapters.worktreeSetup !== undefined)
    await context.checkpoint({ trigger: "automatic", name: "before the gate on the base" });
  const earlier = await context.step("before-base-gate", () => newestCheckpoint(work, context), {
    title: "finding the newest checkpoint",
  });
  for (let count = 1; ; count += 1) {
    const { ran, changed } = await context.step(
      `base-gate-${count}`,
      async (scope) => {
        const done = await executeGate(work, worktree, gate, scope);
        const files = await branch.changedSince({ from: base.commit, exclude: [OUTPUT_DIRECTORY] });
        return { ran: done, changed: files.length > 0 };
      },
      { changesFiles: true, title: `running ${gate.command} on ${base.branch}` },
    );
    // What the gate left behind is not the agent's work.
    if (changed) await context.restoreFiles(`base-gate-${count}-undo`, earlier);
    const verdict = await verdictOf(context, gate, ran);
    if (verdict.kind === "passed") return { kind: "continue", failure: null };
    const reason = `The gate fails on ${base.branch}, before any change. ${verdict.reason}`;
    const answer = await context.decide({
      name: `base-gate-fails-${count}`,
      question: `${reason}. Continue with a gate that fails, run it again, or stop?`,
      options: ["continue", "again", "stop"],
    });
    if (answer === "stop") return { kind: "stop", reason: `Stopped by you: ${reason}` };
    if (answer === "continue") return { kind: "continue", failure: `${reason}.\nIts output:\n${verdict.output}` };
  }
}

type GateResult = Pick<CommandResult, "kind" | "code" | "output">;

async function executeGate(
  { adapters }: HasParts,
  { root }: Worktree,
  gate: GateCommand,
  { mark, signal }: StepScope,
): Promise<{ readonly [K in keyof GateResult]: GateResult[K] }> {
  const done = await adapters.commands.run({
    command: gate.command,
    cwd: root,
    mark,
    timeoutMs: gate.timeoutMs,
    signal,
  });
  // An interrupted command gives no verdict, so the step must run again.
  signal.throwIfAborted();
  return { kind: done.kind, code: done.code, output: truncateStart(done.output, OUTPUT_CHARACTERS) };
}

function hasPassed({ kind, code }: GateResult): boolean {
  return kind === "exited" && code === 0;
}

async function verdictOf(context: AnyStageContext, gate: GateCommand, result: GateResult): Promise<CommandVerdict> {
  const output = result.output.trim();
  if (hasPassed(result)) return { kind: "passed", output };
  const reason = `The gate command ${commandEnding(result)}: ${gate.command}`;
  await context.note(reason, lastLines(output));
  return { kind: "failed", reason, detail: [`${reason}.`, "Its output:", output].join("\n"), output };
}
