import { join } from "node:path";
import type { AgentProbe } from "../../ports/agent.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { codexHome } from "./transcript-place.ts";
import { readAdded } from "./find-rollout.ts";
import type { ProcessResult } from "../../system/subprocess.ts";

/** `login status` looks at what is stored and asks nobody. Who has named a provider of his own, or gives a key, needs no login. */
export async function probeCodex(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  install: string,
): Promise<AgentProbe> {
  const found = await probeVersion(run, { program: "codex", install });
  if (found.problem !== null || hasOwnAccess(process.env)) return found;
  const login = await run(["login", "status"]);
  const isLoggedOut = login.code !== 0 && /not logged in/i.test(`${login.stdout.toString("utf8")}${login.stderr}`);
  if (!isLoggedOut) return found;
  const hint = "Log in with `codex login`, or with a key: `printenv OPENAI_API_KEY | codex login --with-api-key`.";
  return { ...found, problem: "Codex is not logged in", hint };
}

function hasOwnAccess(env: Readonly<Record<string, string | undefined>>): boolean {
  if ((env["CODEX_API_KEY"] ?? "") !== "") return true;
  const provider = /^\s*model_provider\s*=\s*["']([^"']+)/m.exec(
    readAdded(join(codexHome(env), "config.toml"), 0),
  )?.[1];
  return provider !== undefined && provider !== "openai";
}
