import type { AgentTask } from "../../ports/agent.ts";

/** How Codex is called. The prompt goes by standard input: one argument holds 128 KB at most. */
export function codexArgs(task: Pick<AgentTask, "model" | "yolo" | "session">): readonly string[] {
  return [
    "exec",
    ...(task.session === null ? [] : ["resume"]),
    "--json",
    // The worktree is ours; whether it is trusted was decided when the run was begun.
    "--skip-git-repo-check",
    ...(task.yolo ? ["--dangerously-bypass-approvals-and-sandbox"] : SANDBOXED),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : [task.session]),
    "-",
  ];
}

/** As settings: `resume` does not know the options for them. Nobody is there to approve of anything. */
const SANDBOXED = ["-c", 'sandbox_mode="workspace-write"', "-c", 'approval_policy="never"'];

/** How long it means to wait after a refusal stands in its log alone. Who has asked for a log of his own keeps it. */
export function codexEnv(env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  return (env["RUST_LOG"] ?? "") === "" ? { RUST_LOG: "error,codex_core::responses_retry=warn" } : {};
}
