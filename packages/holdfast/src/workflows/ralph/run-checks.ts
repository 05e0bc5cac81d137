import type { Check } from "../../core/ralph/options.ts";
import type { CommandResult } from "../../ports/command.ts";
import { commitWork } from "../commit-work.ts";
import { keepEnd } from "../keep-end.ts";
import type { Worktree } from "../worktree.ts";
import { outputFiles } from "./output-files.ts";
import type { LoopContext, LoopWork } from "./work.ts";

/** How one command of the criterion ended, with the last part of what it printed. A type and no interface: it is a step's result. */
export type RanCheck = {
  readonly command: string;
  readonly kind: CommandResult["kind"];
  readonly code: number | null;
  readonly milliseconds: number;
  readonly output: string;
};

/** What stands in the journal of each: enough for the summary that test runners print last. */
const OUTPUT_CHARACTERS = 20_000;

/** Every command on the files as they are, one after the other, each once in this visit: one that says no does not hide what the next would say. */
export async function runChecks(
  { parts }: LoopWork,
  context: LoopContext,
  { root, outputs }: Worktree,
  checks: readonly Check[],
): Promise<readonly RanCheck[]> {
  const ran: RanCheck[] = [];
  for (const [index, { command, timeoutMs }] of checks.entries()) {
    const result = await context.step(
      `check-${index + 1}`,
      async ({ mark, signal }) => {
        const { kind, code, milliseconds, output } = await parts.commands.run({
          command,
          cwd: root,
          mark,
          timeoutMs,
          signal,
          env: { HOLDFAST_ITERATION: String(context.position.iteration) },
        });
        // Interrupted is no verdict: the step must run again.
        signal.throwIfAborted();
        return { command, kind, code, milliseconds, output: keepEnd(output, OUTPUT_CHARACTERS) };
      },
      { changesFiles: true },
    );
    await outputs.write(outputFiles.check(context.position.iteration, index + 1), result.output);
    ran.push(result);
  }
  return ran;
}

export function hasPassed({ kind, code }: Pick<RanCheck, "kind" | "code">): boolean {
  return kind === "exited" && code === 0;
}

/** What a command that said yes has changed (a formatter, a snapshot) is part of the work. */
export async function commitChecked(
  context: LoopContext,
  worktree: Worktree,
  params: { readonly ran: readonly RanCheck[]; readonly at: string },
): Promise<void> {
  const before = await context.step("head", () => worktree.branch.head());
  const message = `Changes made by ${params.ran.map(({ command }) => command).join("; ")}\n`;
  await commitWork(context, worktree, { step: "commit", message: message.replaceAll("\0", ""), before, at: params.at });
}

/** "npm test failed with exit 1". */
export function checkText({ command, kind, code }: Pick<RanCheck, "command" | "kind" | "code">): string {
  switch (kind) {
    case "exited":
      if (code === 0) return `${command} passed`;
      return code === null ? `${command} was killed` : `${command} failed with exit ${code}`;
    case "timed_out":
      return `${command} took too long`;
    case "interrupted":
      return `${command} was interrupted`;
    case "not_started":
      return `${command} could not be started`;
  }
}
