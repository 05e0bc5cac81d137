import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { Subject } from "../../ports/forge.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { writeOnce } from "../write-once.ts";
import { hiddenWrite, locationOf, LONGEST_BODY, type GitlabPlace } from "./project.ts";
import { requireSubject, subjectOf } from "./subject.ts";

export async function findComment(
  place: GitlabPlace,
  on: Subject,
  key: string,
): Promise<{ readonly url: string } | null> {
  requireKey(key);
  const { name, path, url } = subjectOf(place, on);
  const all = await place.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
  if (all === null) {
    await requireSubject(place, on);
    throw hiddenWrite(place, `read the comments of ${name}`);
  }
  const found = all.find(({ body }) => hasMarker(body, key));
  return found === undefined ? null : { url: `${url}#note_${found.id}` };
}

export async function addComment(
  place: GitlabPlace,
  on: Subject,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = fitBody(comment.body, LONGEST_BODY, (text) => withMarker(text, comment.key));
  const there = await findComment(place, on, comment.key);
  if (there !== null) return there;
  const { name, path, url, number } = subjectOf(place, on);
  return await writeOnce(place.api, {
    request: { method: "POST", path: `${path}/notes`, body: { body } },
    done: (made, what) => ({ url: `${url}#note_${place.api.parse(made, NOTE, what).id}` }),
    find: () => findComment(place, on, comment.key),
    hidden: () => hiddenWrite(place, `comment on ${name}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `${name} in ${locationOf(place)} takes no comment: ${message}`,
        hint: "Look whether its discussion is locked.",
        data: { why: "comment_refused", number },
      }),
  });
}

const NOTE = z.object({ id: z.number(), body: z.string() });
