import { splitAgent } from "../../core/agent/agent-names.ts";
import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { WorkParts } from "../../engine/work-parts.ts";

/** Before anything is made: a run that cannot call its agent would stop at its first stage. */
export function checkAgents(parts: WorkParts, agent: string | null, options: JsonObject): void {
  const models = isJsonObject(options["models"]) ? Object.values(options["models"]) : [];
  const { agents: instead } = parts.errorPolicy.fallback;
  for (const named of [agent, options["implModel"], options["reviewModel"], options["model"], ...models, ...instead]) {
    if (typeof named === "string") parts.agent(splitAgent(named).provider);
  }
}
