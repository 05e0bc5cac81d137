import { noMetrics } from "../../core/ralph/metrics.ts";
import type { RalphEvent } from "../../core/ralph/event.ts";
import type { Verification } from "../../core/ralph/iteration.ts";
import type { RalphOptions } from "../../core/ralph/options.ts";
import type { Budget } from "../../core/position.ts";
import type { RalphState } from "../../core/ralph/state.ts";
import { pureSha256 } from "../../core/sha256.ts";
import type { RanCheck } from "./run-checks.ts";

export function readLearnings(text: string): readonly string[] {
  return text
    .split("\n")
    .flatMap((line) => /^\s*[-*]?\s*LEARNED:\s*(.+)$/i.exec(line)?.[1]?.trim().slice(0, 300) ?? [])
    .slice(0, 10);
}

export function readVerification(params: { readonly number: number; readonly ran: readonly RanCheck[] }): Verification {
  const { number, ran } = params;
  const failed = ran.filter(({ kind, code }) => kind !== "exited" || code !== 0);
  const text = failed.map(({ output }) => output.replaceAll(/\d+/g, "N")).join("\n");
  return {
    number,
    verdict: ran.length === 0 ? "unchecked" : failed.length === 0 ? "passed" : "failed",
    checks: ran.map(({ command, kind, code, milliseconds, output }) => ({
      command,
      kind,
      code,
      milliseconds,
      metrics: noMetrics,
      excerpt: kind === "exited" && code === 0 ? "" : output.slice(-2000),
      signature: kind === "exited" && code === 0 ? null : pureSha256(output),
    })),
    metrics: noMetrics,
    signature: failed.length === 0 ? null : pureSha256(text),
  };
}

export function planReflection(params: {
  readonly options: RalphOptions;
  readonly state: RalphState;
  readonly budget: Budget;
}): RalphEvent {
  const { state, options } = params;
  const { answer, verification } = state;
  if (answer === null || verification === null) throw new Error("nothing to reflect on");
  const passed =
    verification.verdict === "passed" || (verification.verdict === "unchecked" && answer.outcome === "completed");
  const quality = passed ? 100 : 50;
  const iteration = {
    number: answer.number,
    unit: answer.unit,
    unitName: answer.unitName,
    outcome: answer.outcome,
    verdict: verification.verdict,
    quality,
    tests: null,
    errors: null,
    warnings: null,
    spent: answer.spent,
    milliseconds: answer.milliseconds,
    filesChanged: answer.filesChanged,
    signature: verification.signature,
    failingDigest: null,
    tree: answer.tree,
  };
  const same = [...state.iterations, iteration].slice(-(options.detection.stuck ?? 1000));
  const stuck =
    options.detection.stuck !== null &&
    same.length === options.detection.stuck &&
    same.every((one) => one.signature !== null && one.signature === iteration.signature);
  return {
    kind: "reflected",
    iteration,
    unitDone: passed,
    memory: [
      ...state.memory,
      {
        iteration: answer.number,
        unitName: answer.unitName,
        verdict: verification.verdict,
        quality,
        text: `Iteration ${answer.number}: ${verification.verdict}`,
        learnings: answer.learnings,
        signature: verification.signature,
        failing: [],
        lastSeen: answer.number,
      },
    ].slice(-options.memory.capacity),
    learnings: [...state.learnings, ...answer.learnings.map((text) => ({ iteration: answer.number, text }))].slice(-30),
    best:
      state.best === null || quality > state.best.quality
        ? {
            iteration: answer.number,
            unit: answer.unit,
            verdict: verification.verdict,
            quality,
            tree: answer.tree,
            failing: { names: [], more: 0 },
          }
        : state.best,
    findings: stuck
      ? [
          {
            kind: "stuck",
            iteration: answer.number,
            sentence: `Stuck: the same failure ${same.length} times`,
            evidence: {
              because: "same_failure",
              iterations: same.map((one) => one.number),
              common: iteration.signature,
            },
          },
        ]
      : [],
  };
}
