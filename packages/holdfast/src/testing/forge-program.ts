import { findProgram } from "../system/probe.ts";

/** The real program of a forge, which `npm run test:slow` installs where it can. null: it is not here, and a suite skips its tests. */
export function findForgeProgram(name: "gh" | "glab"): string | null {
  return findProgram(name) ?? null;
}
