import type { AgentProbe } from "../../ports/agent.ts";
import type { ProcessResult } from "../../system/subprocess.ts";

/** Does it say its version? For programs that have no command which tells of a login. */
export async function probeVersion(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  { program, install }: { readonly program: string; readonly install: string },
): Promise<AgentProbe> {
  const answer = await run(["--version"]);
  const said = `${answer.stdout.toString("utf8")}\n${answer.stderr}`;
  const version = /\d+\.\d+\.\d+[\w.+-]*/.exec(said)?.[0].replace(/\.$/, "") ?? null;
  if (answer.code === 0 && version !== null) return { installed: true, version, problem: null, hint: null };
  const problem = `${program} --version failed: ${answer.stderr.trim().slice(-300) || `exit ${answer.code ?? "none"}`}`;
  return { installed: true, version: null, problem, hint: install };
}
