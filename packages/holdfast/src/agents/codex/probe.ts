import { join } from "node:path";
import type { AgentProbe } from "../../ports/agent.ts";
import { codexHome } from "./transcript-place.ts";
import { readAdded } from "./find-rollout.ts";
import type { ProcessResult } from "../../system/subprocess.ts";

/** `login status` looks at what is stored and asks nobody. Who has named a provider of his own, or gives a key, needs no login. */
export async function probeCodex(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  install: string,
): Promise<AgentProbe> {
  const answer = await run(["--version"]);
  const version = /\d+\.\d+\.\d+\S*/.exec(answer.stdout.toString("utf8"))?.[0] ?? null;
  if (answer.code !== 0 || version === null) {
    const problem = `codex --version failed: ${answer.stderr.trim().slice(-300) || `exit ${answer.code ?? "none"}`}`;
    return { installed: true, version, problem, hint: install };
  }
  if (hasOwnAccess(process.env)) return { installed: true, version, problem: null, hint: null };
  const login = await run(["login", "status"]);
  const isLoggedOut = login.code !== 0 && /not logged in/i.test(`${login.stdout.toString("utf8")}${login.stderr}`);
  if (!isLoggedOut) return { installed: true, version, problem: null, hint: null };
  const hint = "Log in with `codex login`, or with a key: `printenv OPENAI_API_KEY | codex login --with-api-key`.";
  return { installed: true, version, problem: "Codex is not logged in", hint };
}

function hasOwnAccess(env: Readonly<Record<string, string | undefined>>): boolean {
  if ((env["CODEX_API_KEY"] ?? "") !== "") return true;
  const provider = /^\s*model_provider\s*=\s*["']([^"']+)/m.exec(
    readAdded(join(codexHome(env), "config.toml"), 0),
  )?.[1];
  return provider !== undefined && provider !== "openai";
}
