import { maskSecrets } from "../mask.ts";
import { clip } from "./clip.ts";
import type { CheckResult, IterationVerdict, Verification } from "./iteration.ts";
import { noMetrics } from "./metrics.ts";
import { outputLines } from "./output-lines.ts";
import { joinMetrics, readMetrics } from "./read-metrics.ts";
import { signatureOf } from "./signature.ts";
import { pureSha256 } from "../sha256.ts";

/** A command of the criterion as the commands' port tells of it. */
export interface EndedCheck {
  readonly command: string;
  readonly kind: CheckResult["kind"];
  readonly code: number | null;
  readonly output: string;
  readonly milliseconds: number;
}

/**
 * What the checks of an iteration say, all of it bounded. `planned`: how many checks the unit has; `ended` may hold fewer, when the first that fails
 * ends the matter. The exit code alone decides: numbers read from the output never turn a no into a yes.
 */
export function readVerification(params: {
  readonly number: number;
  readonly planned: number;
  readonly ended: readonly EndedCheck[];
}): Verification {
  const checks = params.ended.map(readCheck);
  const signatures = checks.flatMap((check) => check.signature ?? []);
  return {
    number: params.number,
    verdict: verdictOf(params.planned, checks),
    checks,
    metrics: joinMetrics(checks.map((check) => check.metrics)),
    signature: signatures.length <= 1 ? (signatures[0] ?? null) : pureSha256(signatures.join(" ")),
  };
}

function readCheck(check: EndedCheck): CheckResult {
  const { kind, code } = check;
  const lines = outputLines(check.output);
  const judged = kind === "exited" || kind === "timed_out";
  const metrics = judged ? readMetrics(lines) : noMetrics;
  const passed = kind === "exited" && code === 0;
  return {
    command: clip(check.command, MOST_COMMAND),
    kind,
    code,
    milliseconds: Math.max(0, Math.round(check.milliseconds)),
    metrics,
    excerpt: passed ? "" : excerptOf(lines),
    signature: passed || !judged ? null : signatureOf({ kind, code, metrics, lines }),
  };
}

function verdictOf(planned: number, checks: readonly CheckResult[]): IterationVerdict {
  if (planned === 0) return "unchecked";
  if (checks.some((check) => check.signature !== null)) return "failed";
  const passed = checks.filter((check) => check.kind === "exited" && check.code === 0).length;
  return passed >= planned ? "passed" : "not_run";
}

const MOST_COMMAND = 500;
const MOST_EXCERPT = 6_000;
const MOST_HEAD = 2_000;
const MOST_LOOKED_AT = 200_000;

/** Where the trouble begins, and the end, where tools add up. Masked before it is cut: half a secret is not recognised as one. */
function excerptOf(lines: readonly string[]): string {
  const text = maskSecrets(lines.join("\n").slice(-MOST_LOOKED_AT)).trim();
  if (text.length <= MOST_EXCERPT) return text;
  const first = text.search(BEGINS);
  const head = first < 0 ? "" : `${text.slice(first, first + MOST_HEAD).toWellFormed()}\n…\n`;
  return `${head}${text.slice(head.length - MOST_EXCERPT).toWellFormed()}`;
}

const BEGINS = /^[ \t]{0,20}(?:FAIL|not ok|✖|×|●|E {2}|--- FAIL|error|panicked|thread '|Traceback|\S{1,200}: error)/m;
