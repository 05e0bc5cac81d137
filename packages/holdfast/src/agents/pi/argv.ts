import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How pi is called; the prompt goes by standard input. It asks for nothing: what it may not do it must not have as a tool. */
export function piArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, extra } = params;
  const ours = task.yolo ? [] : ["--tools", "read,edit,write,grep,find,ls"];
  return [
    "--print",
    "--mode",
    "json",
    ...permissionArgs({ ours, extra, words: ["--tools", "-t", "--no-tools"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : ["--session", task.session]),
  ];
}
