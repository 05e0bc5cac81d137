import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";

export interface Verdict {
  readonly name: string;
  readonly pass: boolean;
  readonly reason: string;
}

/**
 * What the end of a stage says about the files. Only words that are a verdict in any workflow count: "review_fail" and "passed" do,
 * "impl_not_done" is work that goes on.
 */
export function eventVerdict(params: {
  readonly stage: string;
  readonly event: string;
  readonly reason: string;
}): Verdict | null {
  const words = params.event.split(/[_.-]/);
  const at = words.findIndex((word) => FAILED.has(word) || PASSED.has(word));
  const word = words[at];
  if (word === undefined) return null;
  const name = words.slice(0, at).join("_");
  return { name: name === "" ? params.stage : name, pass: PASSED.has(word), reason: params.reason };
}

const FAILED: ReadonlySet<string> = new Set(["fail", "failed", "regressed", "red"]);
const PASSED: ReadonlySet<string> = new Set(["pass", "passed", "green"]);

/** What a finished step says about the files: how a command ended, what a parser said, or a plain yes or no. */
export function stepVerdict(step: string, result: Json): Verdict | null {
  if (isJsonArray(result)) return parsedVerdict(step, result);
  if (!isJsonObject(result)) return null;
  return commandVerdict(step, result) ?? plainVerdict(step, result);
}

/** An agent's call that did not come back with an answer; no verdict on the files, whatever the reason. */
export function agentFailure(result: Json): string | null {
  if (!isJsonObject(result) || result["outcome"] !== "failed" || !("usage" in result)) return null;
  const { cause, message } = result;
  const said = typeof message === "string" ? `: ${message}` : "";
  return `The agent failed (${typeof cause === "string" ? cause : "unknown cause"})${said}`;
}

/** "interrupted" and "not_started" say nothing about the files. */
function commandVerdict(name: string, { kind, code }: JsonObject): Verdict | null {
  if (kind === "timed_out") return { name, pass: false, reason: `${name} took too long` };
  if (kind !== "exited" || code === undefined) return null;
  const pass = code === 0;
  return { name, pass, reason: pass ? `${name} passed` : `${name} failed with exit ${JSON.stringify(code)}` };
}

function plainVerdict(name: string, result: JsonObject): Verdict | null {
  const pass = result["pass"] ?? result["passed"];
  if (typeof pass !== "boolean") return null;
  const { reason } = result;
  return { name, pass, reason: typeof reason === "string" ? reason : `${name} ${pass ? "passed" : "failed"}` };
}

function parsedVerdict(name: string, results: readonly Json[]): Verdict | null {
  const kinds = results.map((one) => (isJsonObject(one) ? one["kind"] : null));
  const judged = kinds.filter((kind) => kind === "parsed" || kind === "failed");
  if (judged.length === 0 || !kinds.every((kind) => kind === "parsed" || kind === "failed" || kind === "skipped"))
    return null;
  const failed = judged.filter((kind) => kind === "failed").length;
  return { name, pass: failed === 0, reason: failed === 0 ? `${name} passed` : `${failed} files do not parse` };
}

/** Nobody's fault, told from words: a failed step has no other. */
export function isOutside(reason: string): boolean {
  return OUTSIDE.test(reason);
}

const OUTSIDE =
  /rate.?limit|too many requests|quota|overload|\b(?:429|50[0234]|529)\b|ECONN|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOSPC|network|socket hang|timed out|unreachable|not reached|unauthori[sz]ed|not logged in|credit|billing|no space left/i;
