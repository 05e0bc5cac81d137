import type { AgentProbe } from "../../ports/agent.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** From `claude auth status`, which looks at what is stored and asks nobody. Versions that do not know it say nothing about a login. */
export function readLogin(answer: { readonly stdout: Uint8Array }): Pick<AgentProbe, "problem" | "hint"> {
  const { loggedIn } = parseRecord(Buffer.from(answer.stdout).toString("utf8"));
  if (loggedIn !== false) return { problem: null, hint: null };
  return {
    problem: "Claude Code is not logged in",
    hint: "Log in with `claude auth login`, or set ANTHROPIC_API_KEY.",
  };
}
