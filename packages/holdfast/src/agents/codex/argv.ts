import type { AgentTask } from "../../ports/agent.ts";

/** How Codex is called. The prompt goes by standard input: one argument holds 128 KB at most. */
export function codexArgs(params: {
  readonly task: Pick<AgentTask, "model" | "yolo" | "session">;
  readonly extra: readonly string[];
}): readonly string[] {
  const { task, extra } = params;
  const own = sandboxOf(extra);
  return [
    "exec",
    ...(task.session === null ? [] : ["resume"]),
    "--json",
    // The worktree is ours; whether it is trusted was decided when the run was begun.
    "--skip-git-repo-check",
    ...(own === null && task.yolo
      ? ["--dangerously-bypass-approvals-and-sandbox"]
      : sandboxed(own ?? "workspace-write")),
    ...withoutSandbox(extra),
    ...(task.model === null ? [] : ["--model", task.model]),
    ...(task.session === null ? [] : [task.session]),
    "-",
  ];
}

/** As settings: `resume` does not know the options for them. Nobody is there to approve of anything. */
function sandboxed(mode: string): readonly string[] {
  return ["-c", `sandbox_mode=${JSON.stringify(mode)}`, "-c", 'approval_policy="never"'];
}

/** A limit that the user has set holds with `--yolo` too. */
function sandboxOf(extra: readonly string[]): string | null {
  const at = extra.findIndex((arg) => SANDBOX.includes(arg));
  if (at !== -1) return extra[at + 1] ?? null;
  return extra.find((arg) => arg.startsWith("--sandbox="))?.slice("--sandbox=".length) ?? null;
}

function withoutSandbox(extra: readonly string[]): readonly string[] {
  return extra.filter(
    (arg, index) =>
      !SANDBOX.includes(arg) && !arg.startsWith("--sandbox=") && !SANDBOX.includes(extra[index - 1] ?? ""),
  );
}

const SANDBOX = ["--sandbox", "-s"];

/** How long it means to wait after a refusal stands in its log alone. Who has asked for a log of his own keeps it. */
export function codexEnv(env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  return (env["RUST_LOG"] ?? "") === "" ? { RUST_LOG: "error,codex_core::responses_retry=warn" } : {};
}
