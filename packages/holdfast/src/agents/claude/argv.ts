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

/** It refuses to act without asking as root unless it is told that this is a sandbox: whoever gives root `--yolo` has said so. */
export function claudeEnv(params: {
  readonly yolo: boolean;
  readonly isRoot: boolean;
}): Readonly<Record<string, string>> {
  return params.yolo && params.isRoot ? { IS_SANDBOX: "1" } : {};
}
