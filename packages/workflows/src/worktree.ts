import { type Adapters, runMark } from "@holdfast/core/adapters";
import type { CommandResult } from "@holdfast/core/commands";
import type { Forge } from "@holdfast/core/forge";
import type { JsonObject } from "@holdfast/core/json";
import type { StageContext } from "@holdfast/core/workflow";
import type { Branch } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";

/** Where people and older tools look for what a run writes beside its work. The run's state never depends on anything in it. */
export const OUTPUT_DIRECTORY = ".tmp";

/** The run's worktree: its branch and the files in it that people read. */
export interface Worktree {
  readonly root: string;
  readonly branch: Branch;
  readonly outputs: Outputs;
}

export async function openWorktree({ parts }: HasParts, context: AnyStageContext): Promise<Worktree> {
  const root = context.workspace?.root;
  if (root !== undefined) {
    return { root, branch: await parts.branches.of(root), outputs: hiddenOutputs(parts.outputs(root)) };
  }
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `Run ${context.run.id} has no worktree to work in`,
    hint: `\`holdfast resume ${context.run.id}\` brings it back from its newest checkpoint.`,
  });
}

/** An agent may have removed the directory or put something in its place: files in one that does not hide itself would count as the run's work. */
function hiddenOutputs(outputs: Outputs): Outputs {
  return {
    read: (path) => outputs.read(path),
    refusal: (path) => outputs.refusal(path),
    remove: (path) => outputs.remove(path),
    hide: (directory) => outputs.hide(directory),
    async write(path, text) {
      await outputs.hide(OUTPUT_DIRECTORY);
      await outputs.write(path, text);
    },
  };
}

/** Parks where there is none: a person has to configure one, and nothing done so far is lost. */
export async function requireForge({ parts }: HasParts, context: AnyStageContext): Promise<Forge> {
  if (parts.forge !== null) return parts.forge.marked(`${runMark(parts, context.run.id)}/forge`);
  return await context.park({
    on: "person",
    reason:
      "There is no forge to take issues from and open pull requests at. Add a remote or configure one, then resume.",
  });
}

/** The run's clock, memoised: whoever runs the stage again works with the same time, so commits get the same ids. */
export async function stageTime(context: AnyStageContext): Promise<string> {
  return await context.step("time", () => new Date(context.now()).toISOString());
}

export function prettyJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

interface HasParts {
  readonly parts: Adapters;
}

/** Of a stage of whichever workflow: what is the same in all of them needs nothing of the state. */
export type AnyStageContext = StageContext<JsonObject>;

export interface GateCommand {
  readonly command: string;
  readonly timeoutMs: number;
}

type CommandVerdict =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly reason: string; readonly detail: string };

const OUTPUT_CHARACTERS = 12_000;

/** The user's own command on the files as they are, once a visit. null: there is none, which is no failure. */
export async function runGateCommand(
  { parts }: { readonly parts: Adapters },
  context: AnyStageContext,
  { root, branch }: Worktree,
  params: {
    readonly gate: GateCommand | null;
    /** Pins the date of a commit of what a command that passed has changed (a formatter). null: none is made. */
    readonly commitAt: string | null;
  },
): Promise<CommandVerdict> {
  const { gate, commitAt } = params;
  if (gate === null) return { kind: "passed" };
  const result = await context.step(
    "gate-command",
    async ({ mark, signal }) => {
      const done = await parts.commands.run({
        command: gate.command,
        cwd: root,
        mark,
        timeoutMs: gate.timeoutMs,
        signal,
      });
      // Interrupted is no verdict: the step must run again.
      signal.throwIfAborted();
      if (commitAt !== null && done.kind === "exited" && done.code === 0)
        await branch.commit({ message: `Changes made by ${gate.command}`, at: commitAt, exclude: [OUTPUT_DIRECTORY] });
      return { kind: done.kind, code: done.code, output: truncateStart(done.output, OUTPUT_CHARACTERS) };
    },
    { changesFiles: true },
  );
  if (result.kind === "exited" && result.code === 0) return { kind: "passed" };
  const reason = `The gate command ${howItEnded(result)}: ${gate.command}`;
  return { kind: "failed", reason, detail: [`${reason}.`, "Its output:", result.output.trim()].join("\n") };
}

function howItEnded(result: Pick<CommandResult, "kind" | "code">): string {
  switch (result.kind) {
    case "exited":
      return result.code === null ? "was killed" : `failed with exit ${result.code}`;
    case "timed_out":
      return "took too long";
    case "interrupted":
      return "was interrupted";
    case "not_started":
      return "could not be started";
  }
}

/** The last part of a long text, saying that something is missing. */
export function truncateStart(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return `… (${text.length - characters} characters left out)\n${text.slice(-characters).toWellFormed()}`;
}
