import { join } from "node:path";

/** Where Qwen Code keeps a session that was begun in `cwd`, which it knows by its real name. */
export function transcriptPlace(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): string {
  const { session, cwd, env } = params;
  const home = env["QWEN_RUNTIME_DIR"] || env["QWEN_HOME"] || join(env["HOME"] ?? "/", ".qwen");
  return join(home, "projects", cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"), "chats", `${session}.jsonl`);
}
