import type { AgentTask } from "../../ports/agent.ts";
import { permissionArgs } from "../frame/permission-args.ts";

/** How opencode is called; the prompt goes by standard input. With a title it does not ask a model for one. */
export function opencodeArgs(params: {
  readonly task: Pick<AgentTask, "cwd" | "model" | "yolo" | "session" | "role">;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, extra } = params;
  return [
    "run",
    // It tries a failed request again for ever, and says so in its log alone.
    "--print-logs",
    "--log-level",
    "ERROR",
    "--format",
    "json",
    "--dir",
    task.cwd,
    "--title",
    task.role,
    ...permissionArgs({ ours: task.yolo ? ["--auto"] : [], extra, words: ["--auto"] }),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : ["--session", task.session]),
  ];
}

/**
 * It believes PWD more than its working directory. By itself it allows everything: without leave it may edit files in the worktree, and what
 * it would have to ask for is refused, since nobody is there.
 */
export function opencodeEnv(params: {
  readonly task: Pick<AgentTask, "cwd" | "yolo">;
  readonly env: Readonly<Record<string, string | undefined>>;
}): Readonly<Record<string, string>> {
  const { task, env } = params;
  const isOwn = task.yolo || (env["OPENCODE_PERMISSION"] ?? "") !== "";
  return { PWD: task.cwd, ...(isOwn ? {} : { OPENCODE_PERMISSION: JSON.stringify(ASK) }) };
}

const ASK = { bash: "ask", webfetch: "ask", external_directory: "ask" };
