import { HoldfastError } from "../../core/error.ts";
import type { Outputs } from "../../ports/output.ts";
import { DEFAULT_TEMPLATES, PLACEHOLDERS } from "./default-templates.ts";
import type { ImplOptions, PromptRole } from "./options.ts";
import { checkTemplate } from "./prompt-template.ts";

/** Read and checked once, at the start: what an agent does to the file later changes no prompt of this run. */
export async function loadTemplates(
  prompts: ImplOptions["prompts"],
  outputs: Outputs,
): Promise<Readonly<Record<PromptRole, string>>> {
  const load = async (role: PromptRole): Promise<string> => {
    const source = prompts[role];
    if (source === null) return DEFAULT_TEMPLATES[role];
    const template = "text" in source ? source.text : await readTemplate(outputs, source.path);
    const what = "text" in source ? `The ${role} prompt template` : `The ${role} prompt template ${source.path}`;
    checkTemplate({ what, template, ...PLACEHOLDERS[role] });
    return template;
  };
  return {
    impl: await load("impl"),
    review: await load("review"),
    simplify: await load("simplify"),
    rebase: await load("rebase"),
  };
}

async function readTemplate(outputs: Outputs, path: string): Promise<string> {
  const text = await outputs.read(path);
  if (text !== null) return text;
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `The prompt template ${path} cannot be read in the worktree`,
    hint: "Name a text file of the repository, by its path from the root, that is committed on the base branch.",
    data: { path },
  });
}
