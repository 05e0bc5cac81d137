import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { sampleBySeed } from "./sample-by-seed.ts";

/** An agent as its maker ships it, from test-agents/, where `npm test` installs it; else why it is not there, for a skip that says so. */
export function findRealAgent(
  program: string,
): { readonly kind: "found"; readonly path: string } | { readonly kind: "absent"; readonly why: string } {
  if (process.env["HOLDFAST_NO_AGENTS"] === "1")
    return { kind: "absent", why: "HOLDFAST_NO_AGENTS=1 asks for no real agents" };
  if (!isTurnOf(program))
    return {
      kind: "absent",
      why: `seed ${process.env["HOLDFAST_SEED"]} leaves it out; HOLDFAST_FULL=1 asks every program`,
    };
  const bin = join(ROOT, "test-agents/node_modules/.bin");
  if (existsSync(join(bin, program))) return { kind: "found", path: [bin, process.env["PATH"]].join(delimiter) };
  const log = join(ROOT, "test-agents/install-problem.log");
  const reason = existsSync(log) ? readFileSync(log, "utf8").trim() : "npm test installs it";
  return { kind: "absent", why: `the real ${program} is not installed: ${reason}` };
}

const ROOT = join(import.meta.dirname, "../../../..");
const PROGRAMS = ["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"].map((name) => ({ name }));
const AT_A_TIME = 3;

/** Each starts a large program dozens of times: where a seed is given, as in continuous integration, some of them come with each. */
function isTurnOf(program: string): boolean {
  if (process.env["HOLDFAST_SEED"] === undefined || !PROGRAMS.some(({ name }) => name === program)) return true;
  return sampleBySeed(PROGRAMS, AT_A_TIME).some(({ name }) => name === program);
}
