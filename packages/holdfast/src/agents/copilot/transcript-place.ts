import { join } from "node:path";

/** Where Copilot CLI keeps what happened in a session, whatever the worktree. */
export function transcriptPlace(params: {
  readonly session: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): string {
  const { session, env } = params;
  const home = env["COPILOT_HOME"] || join(env["HOME"] ?? "/", ".copilot");
  return join(home, "session-state", session, "events.jsonl");
}
