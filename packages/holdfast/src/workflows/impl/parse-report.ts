import type { SyntaxVerdict } from "../../ports/gate.ts";

/** As `.tmp/parse-iter-N.json` holds it; the names are those that readers of that file know. */
export interface ParseReport {
  readonly pass: boolean;
  readonly failed_files: readonly string[];
  readonly traceback: string;
  readonly suggestions: readonly string[];
  readonly parsed_files: readonly string[];
  readonly skipped_files: readonly { readonly path: string; readonly why: string }[];
}

export function parseReport(verdicts: readonly SyntaxVerdict[]): ParseReport {
  const failed = verdicts.filter((verdict) => verdict.kind === "failed");
  return {
    pass: failed.length === 0,
    failed_files: failed.map((verdict) => verdict.path),
    traceback: failed
      .map(({ path, line, by, message }) => `${path}${line === null ? "" : `:${line}`} (${by}): ${message}`)
      .join("\n"),
    suggestions: failed.map(({ path }) => `Make ${path} parse.`),
    parsed_files: verdicts.filter((verdict) => verdict.kind === "parsed").map((verdict) => verdict.path),
    skipped_files: verdicts.filter((verdict) => verdict.kind === "skipped").map(({ path, why }) => ({ path, why })),
  };
}
