import * as z from "zod/mini";
import { requireNumber } from "../require-number.ts";
import { listNumbers, readForgeFile } from "./forge-file.ts";
import type { ForgePlace } from "./forge-place.ts";
import { parseJson } from "./parse-json.ts";

const COMMIT = z.string().check(z.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/, "expected a whole commit id"));

const PULL = z.object({
  version: z.literal(1),
  title: z.string().check(z.minLength(1)),
  body: z.string(),
  state: z.enum(["open", "closed", "merged"]),
  draft: z.boolean(),
  head: z.string().check(z.minLength(1)),
  base: z.string().check(z.minLength(1)),
  /** When it was last written: the head branch may be gone by now. */
  headCommit: COMMIT,
  /** Where the base was when it was created: a head that lies there was taken back, not merged. */
  baseCommit: COMMIT,
  mergeCommit: z.nullable(COMMIT),
  createdAt: z.string(),
  labels: z._default(z.array(z.string()), []),
});

/** A pull request as it lies in its file. */
export type StoredPull = z.infer<typeof PULL>;

export function readPull(place: ForgePlace, number: number): StoredPull | null {
  requireNumber(number);
  const path = pullPath(number);
  const file = readForgeFile(place, path);
  return file === undefined ? null : parseJson({ place, path, text: file.text, schema: PULL });
}

/** Newest first. */
export function listPulls(place: ForgePlace): readonly (readonly [number: number, pull: StoredPull])[] {
  return listNumbers(place, "pulls", ".json")
    .toReversed()
    .flatMap((number) => {
      const pull = readPull(place, number);
      return pull === null ? [] : [[number, pull] as const];
    });
}

export function formatPull(pull: StoredPull): string {
  return `${JSON.stringify(pull, null, 2)}\n`;
}

export function pullPath(number: number): string {
  return `pulls/${number}.json`;
}
