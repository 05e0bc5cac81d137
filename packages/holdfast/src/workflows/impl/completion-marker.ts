import type { Finalize } from "./state.ts";

/**
 * The line an agent writes when it is done. It names this iteration, this run and this visit of the stage, so that a line from
 * before (of another iteration, a killed try, another run of the same issue) is never taken for it.
 */
export function completionMarker(params: {
  readonly issue: number;
  readonly iteration: number;
  readonly run: string;
  readonly visit: number;
}): string {
  return `Issue ${params.issue} resolved (iteration ${params.iteration}, ${params.run}.${params.visit})`;
}

/** A line of its own: "NOT: Issue 42 resolved …" and a marker inside a sentence say nothing. */
export function isComplete(finalize: string | null, marker: string): boolean {
  return finalize !== null && lines(finalize).some((line) => line.trim() === marker);
}

/** Title and body of the pull request: the first line that is not empty, and the rest, without any marker, ours or stale. */
export function parseFinalize(text: string): Finalize {
  const kept = lines(text).filter((line) => !ANY_MARKER.test(line));
  const first = kept.findIndex((line) => line.trim() !== "");
  if (first === -1) return { title: null, body: "" };
  return {
    title: (kept[first] ?? "").trim(),
    body: kept
      .slice(first + 1)
      .join("\n")
      .trim(),
  };
}

const ANY_MARKER = /^\s*Issue #?\d+ resolved(?:\s*\(iteration \d+, [a-z0-9-]+\.\d+\))?\.?\s*$/;

function lines(text: string): readonly string[] {
  return text.split(/\r?\n/);
}
