import * as z from "zod/mini";
import type { PullRequestReview } from "../../ports/forge.ts";
import { readForgeFile } from "./forge-file.ts";
import type { ForgePlace } from "./forge-place.ts";
import { parseJson } from "./parse-json.ts";
import { requirePull } from "./pulls.ts";

/** Written by people, in the order in which they came. One without a name of its own is named by its place, so nothing is put before it. */
export function readReviews(place: ForgePlace, number: number): readonly PullRequestReview[] {
  requirePull(place, number);
  const path = `pulls/${number}.reviews.json`;
  const file = readForgeFile(place, path);
  if (file === undefined) return [];
  const written = parseJson({ place, path, text: file.text, schema: REVIEWS });
  return written.map(({ id, ...review }, at) => ({ id: id ?? String(at + 1), byPerson: true, ...review }));
}

const REVIEWS = z.array(
  z.object({
    id: z.optional(z.string().check(z.minLength(1))),
    author: z.string().check(z.minLength(1)),
    state: z.enum(["approved", "changes_requested", "commented", "dismissed"]),
    body: z._default(z.string(), ""),
    commit: z._default(z.nullable(z.string()), null),
    at: z._default(z.nullable(z.string()), null),
  }),
);
