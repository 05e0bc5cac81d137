import { join } from "node:path";
import { asRecord, asText } from "../../core/record.ts";
import type { AgentProbe } from "../../ports/agent.ts";
import type { ProcessResult } from "../../system/subprocess.ts";
import { readText } from "./chat-files.ts";

/** There is no command that tells of a login, so its settings are looked at: nothing here asks anybody. */
export async function probeGemini(
  run: (args: readonly string[]) => Promise<ProcessResult>,
  install: string,
): Promise<AgentProbe> {
  const answer = await run(["--version"]);
  const version = /\d+\.\d+\.\d+\S*/.exec(answer.stdout.toString("utf8"))?.[0] ?? null;
  if (answer.code !== 0 || version === null) {
    const problem = `gemini --version failed: ${answer.stderr.trim().slice(-300) || `exit ${answer.code ?? "none"}`}`;
    return { installed: true, version, problem, hint: install };
  }
  if (hasAccess(process.env)) return { installed: true, version, problem: null, hint: null };
  const hint = "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.";
  return { installed: true, version, problem: "Gemini CLI is not logged in", hint };
}

function hasAccess(env: Readonly<Record<string, string | undefined>>): boolean {
  const given = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"];
  if (given.some((name) => (env[name] ?? "") !== "")) return true;
  const home = env["GEMINI_CLI_HOME"] || (env["HOME"] ?? "/");
  const settings = asRecord(parse(readText(join(home, ".gemini", "settings.json"))));
  const chosen = asText(asRecord(asRecord(settings["security"])["auth"])["selectedType"]);
  // A key may also stand in a .env file, or in the keyring: only for a login with Google is there a file of its own.
  return chosen === "oauth-personal" ? readText(join(home, ".gemini", "oauth_creds.json")) !== "" : chosen !== "";
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
