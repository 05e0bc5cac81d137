import * as z from "zod/mini";
import type { Judged } from "../judge-answer.ts";

export interface PullRefusal {
  readonly why: "exists" | "head_missing" | "base_missing" | "nothing_new" | "drafts_off" | "refused";
  readonly hint: string;
}

/** GitHub names the field where it can, and has only words for the rest. */
export function refusalOf({
  message,
  body,
}: Pick<Extract<Judged, { kind: "refused" }>, "message" | "body">): PullRefusal {
  const parsed = z.safeParse(BODY, body);
  const errors = parsed.success ? (parsed.data.errors ?? []) : [];
  const isInvalid = (field: string): boolean =>
    errors.some((error) => typeof error === "object" && error.field === field && error.code === "invalid");
  if (/pull request already exists/i.test(message)) return { why: "exists", hint: "Use that one, or close it first." };
  if (/no commits between/i.test(message)) return { why: "nothing_new", hint: "Commit and push something first." };
  if (isInvalid("head")) return { why: "head_missing", hint: "Push it first, then create the pull request." };
  if (isInvalid("base")) return { why: "base_missing", hint: "Name a branch that the repository has." };
  if (/draft pull requests are not supported/i.test(message))
    return { why: "drafts_off", hint: "Set impl.draft to false: this repository has no drafts." };
  return { why: "refused", hint: "Look at the repository's rules for pull requests." };
}

const BODY = z.object({
  errors: z.optional(
    z.array(z.union([z.string(), z.object({ field: z.optional(z.string()), code: z.optional(z.string()) })])),
  ),
});
