import { readAccepted } from "../../core/resume/accepted.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Forge } from "../../ports/forge.ts";
import { askForge } from "../publish/forge-answer.ts";
import { openPullRequest } from "../publish/open-pull-request.ts";
import { bodyOf, titleOf } from "./pull-request-text.ts";
import { requireSetup } from "./state.ts";
import type { OpenedRequest } from "../publish/open-pull-request.ts";
import { openWorktree } from "../worktree.ts";
import type { ImplContext, ImplWork } from "./work.ts";

export type Watched =
  | { readonly kind: "watched"; readonly request: OpenedRequest | null }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * The pull request to watch. One that somebody closed, and that a person then said to go on without, has another one in its place. Whether it is
 * closed is looked at once and kept: opened again later, it must not make a stage forget the other one.
 */
export async function watchedRequest(work: ImplWork, context: ImplContext, forge: Forge): Promise<Watched> {
  let request = context.state.pullRequest;
  for (let nth = 1; request !== null; nth += 1) {
    const { number } = request;
    const step = `closed-${nth}`;
    if (!isCloseAccepted(context, number) && !Object.hasOwn(context.position.visit.steps, step)) break;
    const look = async () => (await forge.getPullRequest(number))?.state === "closed";
    if (!(await askForge(context, () => context.step(step, look)))) break;
    const { issue, base } = requireSetup(context.state);
    const { branch } = await openWorktree(work, context);
    const opened = await openPullRequest(context, forge, {
      purpose: `another-${nth}`,
      title: titleOf(context.state.finalize, issue, work.options.tags),
      body: bodyOf(context.state.finalize, issue),
      head: branch.name,
      base: base.branch,
      draft: work.options.draft,
    });
    if (opened.kind === "nothing_new")
      return {
        kind: "refused",
        reason: `No pull request could be opened in the place of #${number}: ${opened.reason}`,
      };
    request = opened.request;
  }
  return { kind: "watched", request };
}

/** The user can reopen it and resume, or resume with another one in its place. */
export async function parkClosed(context: ImplContext, number: number): Promise<never> {
  const { id } = context.run;
  return await context.park({
    on: "person",
    reason: `Pull request #${number} was closed without being merged. Reopen it and run \`holdfast resume ${id}\`, let the run open another one with \`holdfast resume ${id} --accept pull_request_closed\`, or end it with \`holdfast abort ${id}\`.`,
  });
}

/** Somebody was shown that this very pull request is closed, and said "go on". */
export function isCloseAccepted({ extensions }: Pick<ImplContext, "extensions">, number: number): boolean {
  const { pull_request_closed: accepted } = readAccepted(extensions);
  return isJsonObject(accepted) && accepted["number"] === number;
}
