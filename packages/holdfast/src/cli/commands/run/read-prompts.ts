import { readFile } from "node:fs/promises";
import { PROMPT_ROLES } from "../../../config/work-settings.ts";
import type { ImplSettings } from "../../../config/work-settings.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { JsonObject } from "../../../core/json.ts";

/** Read once, when the run begins: it goes on with the same text whatever happens to the file. */
export async function readPrompts(settings: ImplSettings): Promise<JsonObject> {
  const prompts: Record<string, { readonly text: string }> = {};
  for (const role of PROMPT_ROLES) {
    const path = settings.prompts[role];
    if (path === null) continue;
    try {
      prompts[role] = { text: await readFile(path, "utf8") };
    } catch (cause) {
      throw new HoldfastError({
        code: "CONFIG_INVALID",
        message: `The prompt template ${path} cannot be read`,
        hint: `Check impl.prompts.${role} in holdfast.config.yaml.`,
        cause,
      });
    }
  }
  return prompts;
}
