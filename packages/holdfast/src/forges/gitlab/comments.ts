import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { requireIssue } from "./issues.ts";
import { hiddenWrite, locationOf, LONGEST_BODY, projectPath, type GitlabPlace } from "./project.ts";

/** Of issues: at GitLab issues and merge requests have numbers of their own each, so that a number alone names an issue. */
export async function findComment(
  place: GitlabPlace,
  number: number,
  key: string,
): Promise<{ readonly url: string } | null> {
  requireKey(key);
  const all = await place.api.list(`${pathOf(place, number)}?sort=asc&order_by=created_at`, NOTE);
  if (all === null) {
    await requireIssue(place, number);
    throw hiddenWrite(place, `read the comments of ${number}`);
  }
  const found = all.find(({ body }) => hasMarker(body, key));
  return found === undefined ? null : urlOf(place, number, found.id);
}

export async function addComment(
  place: GitlabPlace,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = fitBody(comment.body, LONGEST_BODY, (text) => withMarker(text, comment.key));
  const there = await findComment(place, number, comment.key);
  if (there !== null) return there;
  const path = pathOf(place, number);
  const judged = await place.api.write({ method: "POST", path, body: { body } });
  switch (judged.kind) {
    case "ok":
      return urlOf(place, number, place.api.parse(judged.body, NOTE, `POST ${path}`).id);
    case "lost": {
      const made = await findComment(place, number, comment.key);
      if (made !== null) return made;
      throw place.api.lost(`POST ${path}`, judged.reason);
    }
    case "absent":
      throw hiddenWrite(place, `comment on ${number}`);
    case "refused":
      throw new HoldfastError({
        code: "FORGE_REFUSED",
        message: `issue ${number} in ${locationOf(place)} takes no comment: ${judged.message}`,
        hint: "Look whether its discussion is locked.",
        data: { why: "comment_refused", number },
      });
  }
}

const NOTE = z.object({ id: z.number(), body: z.string() });

function urlOf(place: GitlabPlace, number: number, note: number): { readonly url: string } {
  return { url: `${locationOf(place)}/-/issues/${number}#note_${note}` };
}

function pathOf(place: GitlabPlace, number: number): string {
  return `${projectPath(place.project)}/issues/${number}/notes`;
}
