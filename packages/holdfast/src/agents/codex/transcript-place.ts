import { join } from "node:path";

/** Where Codex keeps its sessions. A file's name begins with the moment at which the session was, so it is looked for by its end. */
export function transcriptPlace(params: {
  readonly session: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): TranscriptPlace {
  const { session, env } = params;
  const home = codexHome(env);
  return {
    sessions: join(home, "sessions"),
    archived: join(home, "archived_sessions"),
    ending: `-${session}.jsonl`,
  };
}

export interface TranscriptPlace {
  /** In it folders of years, in them of months, in them of days. */
  readonly sessions: string;
  /** Without folders. */
  readonly archived: string;
  readonly ending: string;
}

export function codexHome(env: Readonly<Record<string, string | undefined>>): string {
  return env["CODEX_HOME"] || join(env["HOME"] ?? "/", ".codex");
}
