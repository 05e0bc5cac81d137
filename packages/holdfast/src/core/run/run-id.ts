import { HoldfastError } from "../error.ts";
import type { Work } from "./run.ts";

/**
 * "issue-42-k3f9", "fix-login-bug-k3f9", "run-k3f9". Always fits RUN_ID, whatever the task text holds: what is not an
 * ASCII letter or digit becomes a hyphen, and a text with nothing left is called "task".
 */
export function makeRunId(params: { readonly work: Work; readonly random: string }): string {
  if (!RANDOM.test(params.random)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `The random part of a run id must be 4 to 16 lower-case letters or digits, not ${JSON.stringify(params.random)}`,
    });
  }
  return `${stem(params.work)}-${params.random}`;
}

const RANDOM = /^[a-z0-9]{4,16}$/;
/** With the hyphen and the longest random part this stays within RUN_ID's 63. */
const MAX_STEM = 40;

function stem(work: Work): string {
  switch (work.kind) {
    case "issue":
      if (!Number.isSafeInteger(work.number) || work.number < 1) {
        throw new HoldfastError({
          code: "USAGE",
          message: `An issue number is a whole number from 1, not ${work.number}`,
        });
      }
      return `issue-${work.number}`;
    case "task":
      return slug(work.text);
    case "none":
      return "run";
  }
}

function slug(text: string): string {
  const words = text
    // Bounds the work on a pasted novel; only the first words are used anyway.
    .slice(0, MAX_STEM * 10)
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  let result = "";
  for (const word of words) {
    const longer = result === "" ? word.slice(0, MAX_STEM) : `${result}-${word}`;
    if (longer.length > MAX_STEM) break;
    result = longer;
  }
  return result === "" ? "task" : result;
}
