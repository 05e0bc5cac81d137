import { findGh } from "./find-gh.ts";

/** The two ways to GitHub, for suites that hold for both. Where `gh` cannot be had, its half is skipped and says why. */
export function waysToGithub(): readonly WayToGithub[] {
  const program = findGh();
  const skip = program === null;
  return [
    { name: "a token", program: null, skip: false },
    { name: skip ? "gh (skipped: it is not installed, and cannot be installed here)" : "gh", program, skip },
  ];
}

interface WayToGithub {
  readonly name: string;
  readonly program: string | null;
  readonly skip: boolean;
}
