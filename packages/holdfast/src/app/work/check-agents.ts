import { AGENT_VERSIONS, judgeVersion } from "../../core/agent/agent-versions.ts";
import { splitAgent } from "../../core/agent/agent-names.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { WorkParts } from "../../engine/work-parts.ts";

/** Before anything is made: a run that cannot call its agent would stop at its first stage. */
export function checkAgents(parts: WorkParts, agent: string | null, options: JsonObject): void {
  for (const provider of providersOf(parts, agent, options)) parts.agent(provider);
}

/**
 * NEEDS_DECISION before anything is paid, for a program that is too old. Returns a warning for each installed program whose version cannot be read: it may work,
 * or fail in the middle of a run.
 */
export async function checkVersions(
  parts: WorkParts,
  agent: string | null,
  options: JsonObject,
): Promise<readonly string[]> {
  const programs = providersOf(parts, agent, options).filter((name) => Object.hasOwn(AGENT_VERSIONS, name));
  const warnings: string[] = [];
  for (const name of new Set(programs)) {
    const { installed, version, problem, hint } = await parts.agent(name).probe();
    const verdict = judgeVersion(name, version);
    if (verdict === "unknown" && installed) warnings.push(unknownVersion(name, version));
    if (verdict !== "too_old") continue;
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `The agent ${name} cannot be used: ${problem ?? "it is too old"}`,
      hint: hint ?? "Upgrade it.",
      retry: "ask",
      data: { agent: name, version },
    });
  }
  return warnings;
}

function unknownVersion(name: string, version: string | null): string {
  const minimum = AGENT_VERSIONS[name]?.minimum ?? "";
  const reported = version === null ? "reports no version" : `reports the version ${JSON.stringify(version)}`;
  return `Warning: ${name} ${reported}, and Holdfast needs ${minimum} or newer. Run \`${name} --version\` to check it.`;
}

function providersOf(parts: WorkParts, agent: string | null, options: JsonObject): readonly string[] {
  const models = isJsonObject(options["models"]) ? Object.values(options["models"]) : [];
  const { agents: instead } = parts.errorPolicy.fallback;
  const named = [agent, options["implModel"], options["reviewModel"], options["model"], ...models, ...instead];
  return named.flatMap((one) => (typeof one === "string" ? [splitAgent(one).provider] : []));
}
