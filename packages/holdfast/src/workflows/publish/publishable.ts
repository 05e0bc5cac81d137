import { defuse } from "../../core/defuse.ts";
import type { AnyContext } from "../any-context.ts";

/**
 * Text as it may be published in the run's name: title, body or comment at the forge, or a commit message. Secrets are masked and reported. Mentions
 * have no effect, and only the run's own issue is closed: most of the text is an agent's, and what an agent writes may come from a public
 * issue.
 */
export async function publishable(
  context: AnyContext,
  params: { readonly what: string; readonly text: string; readonly kind: "markdown" | "plain" },
): Promise<string> {
  const masked = await context.mask(params.what, params.text);
  return defuse(masked, { own: context.inputs.issue?.number ?? null, kind: params.kind });
}
