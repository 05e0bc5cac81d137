import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How Qwen Code is called. Without a prompt among them it takes the one on standard input, which may be of any length. */
export function qwenArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The one that the call will have: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
  const ours = ["--approval-mode", task.yolo ? "yolo" : "auto-edit"];
  return [
    "--output-format",
    "stream-json",
    // Each piece of an answer is a sign of life.
    "--include-partial-messages",
    ...permissionArgs({ ours, extra, words: ["--yolo", "-y", "--approval-mode"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    task.session === null ? "--session-id" : "--resume",
    session,
  ];
}

/** It would start itself a second time, with more memory, and a kill of the first would leave the second at work. */
export const QWEN_ENV = { QWEN_CODE_NO_RELAUNCH: "true", QWEN_CODE_SUPPRESS_YOLO_WARNING: "1" };
