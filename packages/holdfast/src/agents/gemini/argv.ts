import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How Gemini CLI is called. Without a prompt among them it takes the one on standard input, which may be of any length. */
export function geminiArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The one that the call will have: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
  const ours = task.yolo ? ["--yolo"] : ["--approval-mode", "auto_edit"];
  return [
    "--output-format",
    "stream-json",
    // The worktree is ours; whether it is trusted was decided when the run was begun.
    "--skip-trust",
    ...permissionArgs({ ours, extra, words: ["--yolo", "-y", "--approval-mode"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    task.session === null ? "--session-id" : "--resume",
    session,
  ];
}

/** It would start itself a second time, with more memory, and a kill of the first would leave the second at work. */
export const GEMINI_ENV = { GEMINI_CLI_NO_RELAUNCH: "true" };
