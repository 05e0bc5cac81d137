import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { applyChange } from "./change.ts";
import { readForgeFile } from "./forge-file.ts";
import { withForgeLock } from "./forge-lock.ts";
import type { ForgePlace } from "./forge-place.ts";
import { readIssue } from "./issues.ts";
import { parseJson } from "./parse-json.ts";
import { readPull } from "./pull-file.ts";

export function findComment(place: ForgePlace, number: number, key: string): { readonly url: string } | null {
  requireKey(key);
  requireSubject(place, number);
  const at = readComments(place, number).findIndex(({ body }) => hasMarker(body, key));
  return at === -1 ? null : { url: urlOf(place, number, at) };
}

export function addComment(
  place: ForgePlace,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = withMarker(comment.body, comment.key);
  return withForgeLock(place, async () => {
    const there = findComment(place, number, comment.key);
    if (there !== null) return there;
    const comments = [...readComments(place, number), { at: new Date(place.clock.now()).toISOString(), body }];
    const text = `${JSON.stringify(comments, null, 2)}\n`;
    applyChange(place, {
      path: pathOf(number),
      text,
      mode: "replace",
      what: "comment_created",
      number,
      key: comment.key,
    });
    return { url: urlOf(place, number, comments.length - 1) };
  });
}

const COMMENTS = z.array(z.object({ at: z.string(), body: z.string() }));

function readComments(place: ForgePlace, number: number): z.infer<typeof COMMENTS> {
  const file = readForgeFile(place, pathOf(number));
  return file === undefined ? [] : parseJson({ place, path: pathOf(number), text: file.text, schema: COMMENTS });
}

function requireSubject(place: ForgePlace, number: number): void {
  if (readIssue(place, number) !== null || readPull(place, number) !== null) return;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no issue or pull request ${number} in ${place.directory}`,
    hint: `Write issues/${number}.md there, or name another number.`,
    data: { why: "issue_missing", number },
  });
}

function pathOf(number: number): string {
  return `issues/${number}.comments.json`;
}

function urlOf(place: ForgePlace, number: number, at: number): string {
  return `${pathToFileURL(join(place.directory, pathOf(number))).href}#${at + 1}`;
}
