import type { AgentTask } from "../../ports/agent.ts";

/** How pi is called; the prompt goes by standard input. It asks for nothing: what it may not do it must not have as a tool. */
export function piArgs(task: Pick<AgentTask, "model" | "yolo" | "session">): readonly string[] {
  return [
    "--print",
    "--mode",
    "json",
    ...(task.yolo ? [] : ["--tools", "read,edit,write,grep,find,ls"]),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : ["--session", task.session]),
  ];
}
