import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { writeOnce } from "../write-once.ts";
import { hiddenWrite, missingSubject } from "./issues.ts";
import { LONGEST_BODY } from "./limits.ts";
import { locationOf, repositoryPath, type GithubPlace } from "./repository.ts";

export async function findComment(
  place: GithubPlace,
  number: number,
  key: string,
): Promise<{ readonly url: string } | null> {
  requireKey(key);
  const all = await place.api.list(pathOf(place, number), COMMENT);
  if (all === null) throw await missingSubject(place, number);
  const found = all.find(({ body }) => hasMarker(body ?? "", key));
  return found === undefined ? null : { url: found.html_url };
}

export async function addComment(
  place: GithubPlace,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = fitBody(comment.body, LONGEST_BODY, (text) => withMarker(text, comment.key));
  const there = await findComment(place, number, comment.key);
  if (there !== null) return there;
  const path = pathOf(place, number);
  return await writeOnce(place.api, {
    request: { method: "POST", path, body: { body } },
    done: (made, what) => ({ url: place.api.parse(made, COMMENT, what).html_url }),
    find: () => findComment(place, number, comment.key),
    hidden: () => hiddenWrite(place, `comment on ${number}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `${number} in ${locationOf(place)} takes no comment: ${message}`,
        hint: "Look whether its conversation is locked.",
        data: { why: "comment_refused", number },
      }),
  });
}

const COMMENT = z.object({ body: z.nullish(z.string()), html_url: z.string() });

function pathOf(place: GithubPlace, number: number): string {
  return `${repositoryPath(place)}/issues/${number}/comments`;
}
