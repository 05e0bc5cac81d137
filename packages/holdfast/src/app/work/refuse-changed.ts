import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { divergenceText } from "../../core/replay/divergence.ts";
import type { Divergence } from "../../core/replay/divergence.ts";
import { changedVariables } from "../../core/replay/environment.ts";
import { parseRecordedCall } from "../../core/replay/recorded-call.ts";
import type { Workflow } from "../../engine/definition.ts";
import { knownRun } from "../../engine/known-run.ts";
import { lookParams } from "../../engine/parts.ts";
import { findRunWorkspace } from "../../engine/save/run-workspace.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { currentEnvironment } from "./recorded-parts.ts";
import { replay } from "./replay-run.ts";

/**
 * Of a run in mode "strict", before it goes on: what was recorded must come out of the workflow as it is now, agents must get the environment that they had,
 * and the files must be those of the newest checkpoint. REPLAY_DIVERGED names the first thing that is not so. Changes nothing.
 */
export async function refuseChanged(
  parts: WorkParts,
  params: {
    readonly run: string;
    readonly workflow: Workflow<JsonObject> | undefined;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const run = await knownRun(parts.store, params.run);
  const report = await replay(parts, { run, to: null, workflow: params.workflow, signal: params.signal });
  const [problem] = report.problems;
  if (problem !== undefined)
    throw new HoldfastError({
      code: problem.code === "TREE_MISSING" ? "TREE_MISSING" : "STORE_CORRUPT",
      message: `The record of run ${run.id} is damaged: ${problem.what}`,
      hint: `\`holdfast verify ${run.id}\` shows all of it. Nothing was changed.`,
      data: { run: run.id, problems: report.problems },
    });
  const found = report.divergence ?? (await changedEnvironment(parts, run.id)) ?? (await changedFiles(parts, run));
  if (found !== null) throw diverged(run.id, found);
}

function diverged(run: string, divergence: Divergence): HoldfastError {
  return new HoldfastError({
    code: "REPLAY_DIVERGED",
    message: `Run ${run} is strict, and something is not as it was recorded: ${divergenceText(divergence)}`,
    hint: `Bring it back to what it was, or go on from here in a run of its own: \`holdfast fork ${run}@latest\`. Nothing was changed.`,
    retry: "ask",
    data: { run, divergence },
  });
}

async function changedEnvironment(parts: WorkParts, run: string): Promise<Divergence | null> {
  const known = new Map<string, Readonly<Record<string, string>>>();
  let last:
    | { readonly hash: string; readonly entry: number; readonly step: string | null; readonly visit: number }
    | undefined;
  for await (const entry of parts.store.readJournal({ run })) {
    if (entry.kind !== "call.recorded") continue;
    const call = parseRecordedCall(entry);
    if (call.kind === "forge" || call.kind === "clock") continue;
    const { hash, values } = call.kind === "agent" ? call.ran.environment : call.environment;
    if (values !== null) known.set(hash, values);
    last = { hash, entry: entry.entry, step: call.step, visit: call.visit };
  }
  const now = currentEnvironment();
  if (last === undefined || last.hash === now.hash) return null;
  const before = known.get(last.hash) ?? {};
  const [name = "hash"] = changedVariables(before, now.values);
  const { stage, iteration } = (await parts.store.latest(run))?.planes.position ?? { stage: "", iteration: 0 };
  return {
    where: { stage, iteration, visit: last.visit, step: last.step, checkpoint: null, entry: last.entry },
    what: "environment",
    field: `$${name}`,
    expected: before[name] ?? null,
    actual: now.values[name] ?? null,
  };
}

/** Half of a step that died is no difference: it is put back before anything else is done. */
async function changedFiles(parts: WorkParts, run: Parameters<typeof findRunWorkspace>[1]): Promise<Divergence | null> {
  const latest = await parts.store.latest(run.id);
  const workspace = await findRunWorkspace(parts, run);
  const files = latest?.planes.files ?? null;
  if (latest === undefined || files === null || workspace === undefined || parts.workspaces === null) return null;
  const underWay = await isUnderWay(parts, run.id, latest.entry);
  if (underWay || latest.planes.position.visit.running !== undefined) return null;
  const look = await workspace.look(lookParams(parts));
  if (look.tree === files.tree) return null;
  const { files: changed } = await parts.workspaces.diff({ from: files.tree, to: look.tree, format: "names" });
  const { stage, iteration, visit } = latest.planes.position;
  return {
    where: { stage, iteration, visit: visit.number, step: null, checkpoint: latest.sequence, entry: latest.entry },
    what: "files",
    field: changed[0]?.path ?? "tree",
    expected: files.tree,
    actual: look.tree,
  };
}

async function isUnderWay(parts: WorkParts, run: string, after: number): Promise<boolean> {
  for await (const { kind, body } of parts.store.readJournal({ run, after }))
    if (kind === "step.started" && body["files"] === true) return true;
  return false;
}
