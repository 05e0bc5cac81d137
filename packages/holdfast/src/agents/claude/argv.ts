import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How Claude Code is called. The prompt goes by standard input: one argument holds 128 KB at most. */
export function claudeArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session" | "forkAt">;
  /** The one that the call will have: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
  const ours = task.yolo ? ["--dangerously-skip-permissions"] : ["--permission-mode", "acceptEdits"];
  return [
    "--print",
    "--output-format",
    "stream-json",
    "--verbose",
    // Without them a long answer is a long silence, and what a killed call had taken would not be known.
    "--include-partial-messages",
    ...(task.model === null ? [] : ["--model", task.model]),
    ...permissionArgs({ ours, extra, words: ["--dangerously-skip-permissions", "--permission-mode"] }),
    ...sessionArgs(task, session),
  ];
}

function sessionArgs(task: Pick<AgentTask, "session" | "forkAt">, session: string): readonly string[] {
  if (task.session === null) return ["--session-id", session];
  const forkAt = task.forkAt ?? null;
  if (forkAt === null) return ["--resume", session];
  return ["--resume", task.session, "--fork-session", "--resume-session-at", forkAt, "--session-id", session];
}

/**
 * As root, Claude Code refuses to skip permissions unless IS_SANDBOX says that this is a sandbox. Holdfast claims that in a container only, and
 * never over what the user's own variable says.
 */
export function sandboxOf(params: {
  readonly args: readonly string[];
  readonly isRoot: boolean;
  readonly isContainer: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}): { readonly kind: "start"; readonly env: Readonly<Record<string, string>> } | { readonly kind: "refused" } {
  const { args, env } = params;
  if (!params.isRoot || !args.includes("--dangerously-skip-permissions")) return { kind: "start", env: {} };
  const said = env["IS_SANDBOX"] ?? "";
  const isSandbox = said === "" ? params.isContainer : !/^(?:0|false|no|off)$/i.test(said);
  // "1" is the only value that Claude Code accepts.
  return isSandbox ? { kind: "start", env: { IS_SANDBOX: "1" } } : { kind: "refused" };
}
