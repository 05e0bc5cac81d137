import { spawnSync } from "node:child_process";
import { findProgram } from "../system/probe.ts";

/** The real program of a forge: what is there, or installed where that can be done. null: it cannot be had; a suite then skips and says so. */
export function findForgeProgram(name: "gh" | "glab"): string | null {
  return findProgram(name) ?? installed(name);
}

function installed(name: string): string | null {
  if (process.getuid?.() !== 0 || findProgram("apt-get") === undefined) return null;
  spawnSync("apt-get", ["install", "-y", "-qq", name], {
    stdio: "ignore",
    timeout: 120_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  return findProgram(name) ?? null;
}
