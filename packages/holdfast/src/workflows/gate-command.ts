import type { WorkParts } from "../engine/work-parts.ts";
import type { CommandResult } from "../ports/command.ts";
import type { AnyContext } from "./any-context.ts";
import { keepEnd } from "./keep-end.ts";
import { OUTPUT_DIRECTORY } from "./worktree.ts";
import type { Worktree } from "./worktree.ts";

export interface GateCommand {
  readonly command: string;
  readonly timeoutMs: number;
}

export type CommandVerdict =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly reason: string; readonly detail: string };

const OUTPUT_CHARACTERS = 12_000;

/** The user's own command on the files as they are, once a visit. null: there is none, which is no failure. */
export async function runGateCommand(
  { parts }: { readonly parts: WorkParts },
  context: AnyContext,
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
      return { kind: done.kind, code: done.code, output: keepEnd(done.output, OUTPUT_CHARACTERS) };
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
