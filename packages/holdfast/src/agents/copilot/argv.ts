import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How Copilot CLI is called. Without a prompt among them it takes the one on standard input, which may be of any length. */
export function copilotArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  /** The one that the call will have: `task.session`, or a new one. */
  readonly session: string;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, session, extra } = params;
  const ours = [task.yolo ? "--yolo" : "--allow-tool=write"];
  return [
    "--output-format=json",
    "--no-auto-update",
    ...permissionArgs({ ours, extra, words: ["--yolo", "--allow-all", "--allow-all-tools"] }),
    ...(task.model === null ? [] : [`--model=${task.model}`]),
    `${task.session === null ? "--session-id" : "--resume"}=${session}`,
  ];
}
