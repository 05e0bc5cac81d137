// The files that impl writes to `.tmp` for people and other tools, including the impl-json checkpoint.

import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import { type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import { toExternalCheckpoint } from "@holdfast/formats/format";
import { IMPL_EXTENSION, implJson } from "@holdfast/formats/impl-json";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { type ImplContext, type ImplDependencies, NO_ISSUE } from "./state.ts";

export const outputFiles = {
  issue: (issue: number) => `${OUTPUT_DIRECTORY}/${issue === NO_ISSUE ? "task" : `issue-${issue}`}.md`,
  baseInput: `${OUTPUT_DIRECTORY}/impl-input-base.txt`,
  input: (iteration: number) => `${OUTPUT_DIRECTORY}/impl-input-${iteration}.txt`,
  output: `${OUTPUT_DIRECTORY}/impl-output.txt`,
  finalize: `${OUTPUT_DIRECTORY}/finalize.txt`,
  commitReport: (iteration: number) => `${OUTPUT_DIRECTORY}/commit-report-iter-${iteration}.txt`,
  parse: (iteration: number) => `${OUTPUT_DIRECTORY}/parse-iter-${iteration}.json`,
  review: (iteration: number) => `${OUTPUT_DIRECTORY}/review-iter-${iteration}.json`,
  reviewOutput: (iteration: number) => `${OUTPUT_DIRECTORY}/review-output-${iteration}.txt`,
  pullRequest: (iteration: number) => `${OUTPUT_DIRECTORY}/pr-iter-${iteration}.json`,
  rebase: (iteration: number) => `${OUTPUT_DIRECTORY}/rebase-iter-${iteration}.json`,
  fatal: (at: number) => `${OUTPUT_DIRECTORY}/fatal-${stamp(at)}.json`,
  stuckReport: `${OUTPUT_DIRECTORY}/stuck-report.md`,
  checkpoint: `${OUTPUT_DIRECTORY}/impl-checkpoint.json`,
} as const;

/** Formats a UTC time like 20250115-103000. */
function stamp(at: number): string {
  return new Date(at).toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
}

/** Writes `.tmp/impl-checkpoint.json` for tools that read it; Holdfast never reads it back. */
export async function writeCheckpointFile(
  { options, adapters }: ImplDependencies,
  context: ImplContext,
): Promise<void> {
  const root = context.workspace?.root;
  if (root === undefined) return;
  const outputs = adapters.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  const { run, position, inputs, extensions, state } = context;
  const document = implDocument({
    run,
    planes: { position, inputs, extensions, values: state },
    worktree: root,
    simplifies: options.simplify,
    at: new Date(context.now()).toISOString(),
  });
  await outputs.write(outputFiles.checkpoint, document);
}

interface ImplDocumentParams {
  readonly run: Pick<Run, "workflow" | "work">;
  readonly planes: Pick<Planes, "position" | "inputs" | "extensions"> & { readonly values: JsonObject };
  readonly worktree: string;
  /** A run with the simplify stage uses version 2 of the document from the beginning, also before it reaches that stage. */
  readonly simplifies: boolean;
  /** ISO 8601 UTC. */
  readonly at: string;
}

/** Returns the impl-json document that `holdfast format export --to impl-json` would write at this moment. */
export function implDocument({ run, planes, worktree, simplifies, at }: ImplDocumentParams): string {
  const { position, inputs, values } = planes;
  const base = emptyPlanes();
  const kept = planes.extensions[IMPL_EXTENSION];
  const own = { version: simplifies ? 2 : 1, ...(isJsonObject(kept) ? kept : {}), worktree };
  const extensions = { ...planes.extensions, [IMPL_EXTENSION]: own };
  const whole = { ...base, position, inputs, context: { ...base.context, values }, extensions };
  const { external } = toExternalCheckpoint(
    { ...run, labels: {} },
    { trigger: "stage", sequence: 0, createdAt: at, planes: whole },
    "impl-json",
  );
  return new TextDecoder().decode(implJson.encode(external).bytes);
}
