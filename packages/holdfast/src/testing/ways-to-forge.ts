import { findForgeProgram } from "./forge-program.ts";

/** The two ways to a forge, for suites that hold for both. Where its program cannot be had, that half is skipped and says why. */
export function waysToForge(name: "gh" | "glab"): readonly [WayToForge, WayToForge] {
  const program = findForgeProgram(name);
  const skip = program === null;
  return [
    { name: "a token", program: null, skip: false },
    { name: skip ? `${name} (skipped: it is not installed, and cannot be installed here)` : name, program, skip },
  ];
}

interface WayToForge {
  readonly name: string;
  readonly program: string | null;
  readonly skip: boolean;
}
