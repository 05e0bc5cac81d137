import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { findProgram } from "../system/probe.ts";

/** The real program of a forge: what is there, or installed where that can be done. null: it cannot be had; a suite then skips and says so. */
export function findForgeProgram(name: "gh" | "glab"): string | null {
  return findProgram(name) ?? installed(name);
}

function installed(name: string): string | null {
  // `npm test` has tried by then, once for all suites.
  if (process.env["HOLDFAST_FORGE_PROGRAMS"] === "tried") return null;
  if (process.getuid?.() !== 0 || findProgram("apt-get") === undefined) return null;
  // A bare image knows no packages at all before the first update.
  if (!knowsPackages()) apt("update");
  // Other suites may be at the same: the second waits for the first, and finds it done.
  apt("install", "-y", name);
  return findProgram(name) ?? null;
}

function apt(...args: readonly string[]): void {
  spawnSync("apt-get", ["-qq", "-o", "DPkg::Lock::Timeout=120", ...args], {
    stdio: "ignore",
    timeout: 180_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function knowsPackages(): boolean {
  try {
    return readdirSync("/var/lib/apt/lists").some((file) => file.includes("_Packages"));
  } catch {
    return false;
  }
}
