import { HoldfastError } from "../error.ts";
import { typeOfLabels } from "./labels.ts";

/** `{fix|feature}/issue-{n}-{slug}`: ASCII, lower case, words whole where they fit. A title without one is called "task". */
export function branchName(issue: {
  readonly number: number;
  readonly title: string;
  readonly labels: readonly string[];
}): string {
  if (!Number.isSafeInteger(issue.number) || issue.number < 1) {
    throw new HoldfastError({
      code: "USAGE",
      message: `An issue number is a whole number from 1, not ${issue.number}`,
    });
  }
  const kind = typeOfLabels(issue.labels) === "bug" ? "fix" : "feature";
  return `${kind}/issue-${issue.number}-${slug(issue.title)}`;
}

/** With the longest number the name stays well below the 255 bytes of a file's name, which a ref is. */
const MAX_SLUG = 40;

function slug(title: string): string {
  const words = title
    // Bounds the work on a pasted novel; only the first words are used anyway.
    .slice(0, MAX_SLUG * 10)
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  let result = "";
  for (const word of words) {
    const longer = result === "" ? word.slice(0, MAX_SLUG) : `${result}-${word}`;
    if (longer.length > MAX_SLUG) break;
    result = longer;
  }
  return result === "" ? "task" : result;
}
