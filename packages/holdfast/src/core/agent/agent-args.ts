import { AGENT_PROGRAMS } from "./agent-names.ts";
import { isRecord } from "../record.ts";

/** Further arguments for the makers' programs, by agent. */
export type AgentArgs = Readonly<Record<string, readonly string[]>>;

/** undefined: this is none, or it has arguments that are not the user's to give. */
export function parseAgentArgs(value: unknown): AgentArgs | undefined {
  if (!isRecord(value)) return undefined;
  const found: Record<string, readonly string[]> = {};
  for (const [name, list] of Object.entries(value)) {
    const args = Array.isArray(list) ? list.filter((arg): arg is string => typeof arg === "string") : [];
    if (!AGENT_PROGRAMS.includes(name) || !Array.isArray(list) || args.length !== list.length) return undefined;
    // What is no option would be taken for the prompt.
    if (args.length > 0 && args[0]?.startsWith("-") !== true) return undefined;
    if (args.some((arg) => arg === "" || arg.includes("\0") || isOurs(arg))) return undefined;
    found[name] = args;
  }
  return found;
}

/** Session, prompt, model and the way in which it tells what it does are Holdfast's: without them a run could not go on. */
function isOurs(arg: string): boolean {
  const [option = ""] = arg.split("=");
  return OURS.includes(option);
}

const OURS: readonly string[] = [
  "-",
  "--",
  "--acp",
  "--continue",
  "--dir",
  "--fork-session",
  "--format",
  "--help",
  "--input-format",
  "--json",
  "--last",
  "--mode",
  "--model",
  "--output-format",
  "--print",
  "--prompt",
  "--resume",
  "--session",
  "--session-id",
  "--version",
];
