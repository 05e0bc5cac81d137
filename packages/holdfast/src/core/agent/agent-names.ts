/** What may stand before the colon of `provider:model`; the command line names them without loading any of them. */
export const AGENT_NAMES = [
  "acp",
  "claude",
  "codex",
  "command",
  "copilot",
  "gemini",
  "opencode",
  "pi",
  "qwen",
  "scripted",
  "scripted-session",
] as const;

/** Ours: they need no program of a certain maker. */
const OWN: readonly string[] = ["acp", "command", "scripted", "scripted-session"];

/** Those that are a maker's program, which is installed or not. */
export const AGENT_PROGRAMS: readonly string[] = AGENT_NAMES.filter((name) => !OWN.includes(name));

/** For a hint: "claude, codex, …". */
export const AGENT_LIST: string = AGENT_NAMES.join(", ");

/** `claude:opus` is agent and model; `claude` alone has the agent's default. */
export function splitAgent(named: string): { readonly provider: string; readonly model: string | null } {
  const colon = named.indexOf(":");
  return colon === -1
    ? { provider: named, model: null }
    : { provider: named.slice(0, colon), model: named.slice(colon + 1) };
}
