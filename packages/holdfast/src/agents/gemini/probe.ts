import { join } from "node:path";
import { asRecord, asText } from "../../core/record.ts";
import type { AgentProbe } from "../../ports/agent.ts";
import type { ProcessResult } from "../../system/subprocess.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { readText } from "./chat-files.ts";

/** There is no command that tells of a login, so its settings are looked at: nothing here asks anybody. */
export async function probeGemini(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  install: string,
): Promise<AgentProbe> {
  const found = await probeVersion(run, { program: "gemini", install });
  if (found.problem !== null || hasAccess(process.env)) return found;
  const hint = "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.";
  return { ...found, problem: "Gemini CLI is not logged in", hint };
}

function hasAccess(env: Readonly<Record<string, string | undefined>>): boolean {
  const given = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"];
  if (given.some((name) => (env[name] ?? "") !== "")) return true;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  const settings = parseRecord(readText(join(home, ".gemini", "settings.json")));
  const chosen = asText(asRecord(asRecord(settings["security"])["auth"])["selectedType"]);
  // A key may also stand in a .env file, or in the keyring: only for a login with Google is there a file of its own.
  return chosen === "oauth-personal" ? readText(join(home, ".gemini", "oauth_creds.json")) !== "" : chosen !== "";
}
