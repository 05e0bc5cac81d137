// Forge access that the workflows share: waiting for an unavailable forge, and the issue and pull request texts that
// Holdfast publishes.

import type { Adapters } from "@holdfast/core/adapters";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import { commentsText } from "@holdfast/core/findings";
import { type Forge, readIssueWithComments } from "@holdfast/core/forge";
import { removeMentions } from "@holdfast/core/mask";
import type { WaitingFor } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { AnyStageContext } from "./worktree.ts";

/** Delay before the run asks again when a forge or remote does not answer and gives no retry time. */
const ASK_AGAIN_MS = 60_000;

/**
 * Calls the forge or the remote, usually through a step. On a temporary failure the run waits until the time that the
 * error gives, or for ASK_AGAIN_MS. If only the user can help (a login, a missing remote), the run waits for the user.
 * Neither uses up an iteration. Call it outside the step, so that the step counts as unfinished and runs again.
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
      return await context.wait({ for: "forge", reason: error.message, until: time });
    }
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    const reason = `${error.message}.${hint} Fix this, then run \`holdfast resume ${context.run.id}\`.`;
    return await context.wait({ for: "you", reason });
  }
}

/**
 * Makes the run wait the first time this is reached and continues after a resume. The step is recorded before the wait:
 * after a crash in between, the run continues without having waited.
 */
export async function waitOnce(
  context: AnyStageContext,
  params: { readonly name: string; readonly for: WaitingFor; readonly reason: string },
): Promise<void> {
  let first = false;
  await context.step(params.name, () => {
    first = true;
    return true;
  });
  if (first) await context.wait({ for: params.for, reason: params.reason });
}

/** Throws USAGE for a run without an issue. */
export function issueNumber({ run }: Pick<AnyStageContext, "run">): number {
  if (run.work.kind === "issue") return run.work.number;
  throw usageError(
    `Run ${run.id} has no issue, and the ${run.workflow} workflow works on an issue`,
    `Start it with an issue number: \`holdfast run 42 --workflow ${run.workflow}\`.`,
  );
}

/**
 * The issue that the run began with; null if the forge does not have it. It is fetched once: the user decides about later
 * changes at the forge.
 */
export async function readIssue(
  context: AnyStageContext,
  number: number,
  findForge: () => Promise<Forge>,
): Promise<{ readonly [K in keyof IssueSnapshot]: IssueSnapshot[K] } | null> {
  const known = context.inputs.issue;
  if (known !== null && known.number === number) return { ...known };
  const forge = await findForge();
  return await callForge(context, () =>
    context.step(
      "issue",
      async () => {
        const issue = await readIssueWithComments(forge, number);
        return issue === null || issue.number !== number ? null : { ...issue };
      },
      { title: "reading the issue" },
    ),
  );
}

/** Fetches the issue of an imported run from the forge in its present form. */
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
  const issue = await readIssueWithComments(forge, number);
  if (issue !== null && issue.number === number) return { forge, issue };
  throw usageError(
    `There is no issue ${number} at ${forge.location}, which the imported run is about`,
    "Resume it in a clone of the repository that it came from.",
  );
}

/**
 * Prepares text that Holdfast publishes for the run: a title, body, comment or commit message. Masks and reports
 * secrets. Disables mentions and every closing keyword except for the run's own issue, because agent text may originate
 * from a public issue.
 */
export async function sanitizeText(
  context: AnyStageContext,
  params: { readonly what: string; readonly text: string; readonly kind: "markdown" | "plain" },
): Promise<string> {
  const masked = await context.mask(params.what, params.text);
  return removeMentions(masked, { own: context.inputs.issue?.number ?? null, kind: params.kind });
}

/** Returns a pull request body that closes this issue. */
export function closingBody(text: string, issue: number): string {
  const body = stripMarkers(text);
  if (closesIssue(body, issue)) return body;
  return `${body}${body === "" ? "" : "\n\n"}Closes #${issue}`;
}

/**
 * Removes comments that look like Holdfast's own markers. A marker in an agent's text could make this pull request look
 * like another run's.
 */
export function stripMarkers(text: string): string {
  return text.replaceAll(/<!--\s*holdfast:[^]*?-->/g, "").trim();
}

/** The word and number boundaries matter: "closes #420" does not close 42, and neither does "discloses #42". */
export function closesIssue(body: string, issue: number): boolean {
  return new RegExp(`(?<![\\w-])closes\\s+#\\s*${issue}(?!\\d)`, "i").test(body);
}

/** Formats the issue with its comments as Markdown for an agent. */
export function issueText(issue: Pick<IssueSnapshot, "title" | "body" | "labels" | "comments">): string {
  const labels = issue.labels.length === 0 ? [] : ["", `Labels: ${issue.labels.join(", ")}`];
  const { comments = [] } = issue;
  const said = comments.length === 0 ? [] : ["## Comments, oldest first", "", commentsText(comments), ""];
  return [`# ${issue.title}`, ...labels, "", issue.body.trim(), "", ...said].join("\n");
}
