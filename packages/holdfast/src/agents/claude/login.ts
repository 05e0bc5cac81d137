import { asRecord } from "../../core/record.ts";
import type { AgentProbe } from "../../ports/agent.ts";

/** From `claude auth status`, which looks at what is stored and asks nobody. Versions that do not know it say nothing about a login. */
export function readLogin(answer: { readonly stdout: Uint8Array }): Pick<AgentProbe, "problem" | "hint"> {
  const { loggedIn } = parse(Buffer.from(answer.stdout).toString("utf8"));
  if (loggedIn !== false) return { problem: null, hint: null };
  return {
    problem: "Claude Code is not logged in",
    hint: "Log in with `claude auth login`, or set ANTHROPIC_API_KEY.",
  };
}

function parse(text: string): { readonly loggedIn: unknown } {
  try {
    return { loggedIn: asRecord(JSON.parse(text))["loggedIn"] };
  } catch {
    return { loggedIn: undefined };
  }
}
