import type { Adapters } from "@holdfast/core/adapters";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge } from "@holdfast/core/forge";
import { removeMentions } from "@holdfast/core/mask";
import type { WaitingFor } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";
import type { AnyStageContext } from "./worktree.ts";

/** When a forge or a remote that does not answer, and names no time, is asked again. */
const ASK_AGAIN_MS = 60_000;

/**
 * What the forge or the remote answers, as a rule through a step. Where it does not answer for now the run waits for it, until the time that it names
 * where it names one. Where only the user can help (a login, a missing remote) the run waits for the user. No iteration is spent on either. Call it
 * outside the step, so that the step counts as not done and is tried again.
 */
export async function callForge<T>(context: AnyStageContext, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_FAILED" && error.code !== "FORGE_DENIED"))
      throw error;
    if (error.retry === "later") {
      const { until } = error.data;
      const time = typeof until === "string" ? until : new Date(context.now() + ASK_AGAIN_MS).toISOString();
      return await context.park({ on: "forge", reason: error.message, until: time });
    }
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    const reason = `${error.message}.${hint} Fix this, then run \`holdfast resume ${context.run.id}\`.`;
    return await context.park({ on: "person", reason });
  }
}

/**
 * Parks the first time it is reached; run again after the run was taken up, it goes on. Written down before parking: killed in
 * between, the run only goes on without having waited.
 */
export async function waitOnce(
  context: AnyStageContext,
  params: { readonly name: string; readonly on: WaitingFor; readonly reason: string },
): Promise<void> {
  let first = false;
  await context.step(params.name, () => {
    first = true;
    return true;
  });
  if (first) await context.park({ on: params.on, reason: params.reason });
}

/** The issue that an imported run is about, as it is now, and the forge it is at. */
export async function fetchImportedIssue(
  { forge }: Pick<Adapters, "forge">,
  number: number,
): Promise<{ readonly forge: Forge; readonly issue: IssueSnapshot }> {
  if (forge === null)
    throw new HoldfastError({
      code: "FORGE_FAILED",
      message: "There is no forge to take the issue from and open a pull request at",
      hint: "Add a remote, or configure `forge:` in holdfast.config.yaml; then resume again.",
    });
  const issue = await forge.getIssue(number);
  if (issue !== null && issue.number === number) return { forge, issue };
  throw new HoldfastError({
    code: "USAGE",
    message: `There is no issue ${number} at ${forge.location}, which the imported run is about`,
    hint: "Resume it in a clone of the repository that it came from.",
  });
}

/**
 * Text as it may be published in the run's name: title, body or comment at the forge, or a commit message. Secrets are masked and reported. Mentions
 * have no effect, and only the run's own issue is closed: most of the text is an agent's, and what an agent writes may come from a public
 * issue.
 */
export async function sanitizeText(
  context: AnyStageContext,
  params: { readonly what: string; readonly text: string; readonly kind: "markdown" | "plain" },
): Promise<string> {
  const masked = await context.mask(params.what, params.text);
  return removeMentions(masked, { own: context.inputs.issue?.number ?? null, kind: params.kind });
}

/** A pull request's body that closes this issue. */
export function closingBody(text: string, issue: number): string {
  const body = stripMarkers(text);
  if (closesIssue(body, issue)) return body;
  return `${body}${body === "" ? "" : "\n\n"}Closes #${issue}`;
}

/** Without comments in the form of our own keys: a key in the text of an agent would make its pull request be found as another run's. */
export function stripMarkers(text: string): string {
  return text.replaceAll(/<!--\s*holdfast:[^]*?-->/g, "").trim();
}

/** "closes #420" does not close 42, and neither does "discloses #42". */
export function closesIssue(body: string, issue: number): boolean {
  return new RegExp(`(?<![\\w-])closes\\s+#\\s*${issue}(?!\\d)`, "i").test(body);
}

/** The issue in words, for an agent. */
export function issueText(issue: Pick<IssueSnapshot, "title" | "body" | "labels">): string {
  const labels = issue.labels.length === 0 ? [] : ["", `Labels: ${issue.labels.join(", ")}`];
  return [`# ${issue.title}`, ...labels, "", issue.body.trim(), ""].join("\n");
}
