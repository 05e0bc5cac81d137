import { join } from "node:path";

/** Where Claude Code keeps a session that was begun in `cwd`. The same id may stand in another project's folder when it was moved. */
export function transcriptPlace(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): TranscriptPlace {
  const { session, cwd, env } = params;
  const projects = join(env["CLAUDE_CONFIG_DIR"] || join(env["HOME"] ?? "/", ".claude"), "projects");
  const project = join(projects, cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"));
  return { projects, file: join(project, `${session}.jsonl`) };
}

export interface TranscriptPlace {
  /** Holds a folder for each working directory. */
  readonly projects: string;
  /** Its subagents' are in a folder of the same name, without the ending. */
  readonly file: string;
}
