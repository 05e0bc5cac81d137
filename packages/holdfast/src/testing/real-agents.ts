import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

/** An agent as its maker ships it, from test-agents/, where `npm run test:slow` installs it; else why it is not there, for a skip that says so. */
export function findRealAgent(
  program: string,
): { readonly kind: "found"; readonly path: string } | { readonly kind: "absent"; readonly why: string } {
  if (process.env["HOLDFAST_NO_AGENTS"] === "1")
    return { kind: "absent", why: "HOLDFAST_NO_AGENTS=1 asks for no real agents" };
  const bin = join(ROOT, "test-agents/node_modules/.bin");
  if (existsSync(join(bin, program))) return { kind: "found", path: [bin, process.env["PATH"]].join(delimiter) };
  const log = join(ROOT, "test-agents/install-problem.log");
  const reason = existsSync(log) ? readFileSync(log, "utf8").trim() : "npm run test:slow installs it";
  return { kind: "absent", why: `the real ${program} is not installed: ${reason}` };
}

const ROOT = join(import.meta.dirname, "../../../..");
