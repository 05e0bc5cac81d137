import { join } from "node:path";

/** Where pi keeps a session that was begun in `cwd`: `<folder>/<moment>_<session>.jsonl`. */
export function transcriptPlace(params: {
  readonly session: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): TranscriptPlace {
  const { session, cwd, env } = params;
  const home = env["HOME"] ?? "/";
  const expanded = (path: string) => (path === "~" || path.startsWith("~/") ? `${home}${path.slice(1)}` : path);
  const own = env["PI_CODING_AGENT_SESSION_DIR"] || "";
  const agent = expanded(env["PI_CODING_AGENT_DIR"] || join(home, ".pi", "agent"));
  const project = `--${cwd.replace(/^\//, "").replaceAll(/[/:]/g, "-")}--`;
  return { folder: own === "" ? join(agent, "sessions", project) : expanded(own), ending: `_${session}.jsonl` };
}

export interface TranscriptPlace {
  readonly folder: string;
  readonly ending: string;
}

/** The name that pi gives to a session which was begun at that time. */
export function nameOf({ ending }: TranscriptPlace, timestamp: string): string {
  return `${timestamp.replaceAll(/[:.]/g, "-") || "1970-01-01T00-00-00-000Z"}${ending}`;
}
