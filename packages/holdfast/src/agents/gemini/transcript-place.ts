import { join } from "node:path";

/**
 * Where Gemini CLI keeps a session that was begun in `cwd`: `<tmp>/<project>/chats/session-<minute>-<first eight of the id>.jsonl`. What it calls the project is
 * known to `<tmp>/<project>/.project_root` alone; and one session may have several files, one for each minute in which it was gone on with.
 */
export function transcriptPlace(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): TranscriptPlace {
  const { session, cwd, env } = params;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  return { tmp: join(home, ".gemini", "tmp"), cwd, session, ending: `-${session.slice(0, 8)}.jsonl` };
}

export interface TranscriptPlace {
  readonly tmp: string;
  readonly cwd: string;
  readonly session: string;
  readonly ending: string;
}

/** The name that a file has which was begun at that time. */
export function nameOfLost({ ending }: TranscriptPlace, startTime: string): string {
  const minute = startTime.slice(0, "2026-01-01T00:00".length).replaceAll(":", "-");
  return `session-${minute === "" ? "1970-01-01T00-00" : minute}${ending}`;
}
