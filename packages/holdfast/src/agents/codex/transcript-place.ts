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

/** Where one stood that is gone: Codex remembers the name, which it made of the moment that stands in the first line, in local time. */
export function placeOfLost(place: TranscriptPlace, text: string): string {
  const moment = /"timestamp":"(\d{4}-[\d:.T-]+Z)","cwd"/.exec(text)?.[1] ?? /"timestamp":"([^"]+)"/.exec(text)?.[1];
  const date = new Date(moment ?? 0);
  const two = (part: number) => String(part).padStart(2, "0");
  const [year, month, day] = [String(date.getFullYear()), two(date.getMonth() + 1), two(date.getDate())];
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join("-");
  return join(place.sessions, year, month, day, `rollout-${year}-${month}-${day}T${clock}${place.ending}`);
}
