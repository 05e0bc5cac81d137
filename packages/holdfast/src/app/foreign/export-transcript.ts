import { join } from "node:path";
import type { InputsPlane } from "../../core/checkpoint/checkpoint.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { allCheckpoints } from "../../engine/upkeep/all-checkpoints.ts";
import type { Parts } from "../../engine/parts.ts";
import { exportAtif } from "../../formats/atif/export-atif.ts";
import type { Encoded, Loss } from "../../formats/format.ts";
import { listAgentLogs, readLogLines } from "../look/agent-logs.ts";
import { readPackageFile } from "./package-file.ts";

/** A whole run as an ATIF trajectory: its journal, and what its agents said as far as that is kept. */
export async function exportTranscript(parts: Parts, run: RunSummary): Promise<Encoded> {
  const { store } = parts;
  const entries = await Array.fromAsync(store.readJournal({ run: run.id }));
  const logs = [];
  const cut: string[] = [];
  for (const { path, visit, step, bytes } of await listAgentLogs(join(store.location, "logs", run.id))) {
    const { lines, next } = await readLogLines(path, 0);
    logs.push({ visit, step, lines });
    if (next < bytes) cut.push(`${visit}-${step}`);
  }
  const newest = (await store.latest(run.id))?.planes;
  const given = await firstInputs(parts, run.id);
  const { agent, model } = newest?.config ?? { agent: null, model: null };
  const { version } = JSON.parse(readPackageFile("package.json")) as { readonly version?: unknown };
  const inputs = given?.inputs ?? null;
  const conductor = { version: String(version), agent, model };
  const encoded = exportAtif({ run, entries, logs, inputs, conductor });
  return { ...encoded, losses: [...encoded.losses, ...lossesOf({ given, newest: newest?.inputs ?? null, cut })] };
}

/** Of the oldest checkpoint that knows the work: a run may find it out in its first stage, and people edit issues later. */
async function firstInputs(
  parts: Parts,
  run: string,
): Promise<{ readonly sequence: number; readonly inputs: InputsPlane } | null> {
  for (const { sequence, quarantined } of (await Array.fromAsync(allCheckpoints(parts.store, run))).toReversed()) {
    if (quarantined) continue;
    const { inputs } = (await parts.store.getCheckpoint({ run, sequence })).planes;
    if (inputs.issue !== null || inputs.task !== null) return { sequence, inputs };
  }
  return null;
}

function lossesOf(params: {
  readonly given: { readonly sequence: number; readonly inputs: InputsPlane } | null;
  readonly newest: InputsPlane | null;
  readonly cut: readonly string[];
}): readonly Loss[] {
  const { given, newest, cut } = params;
  const losses: Loss[] = cut.map((log) => ({ path: `logs.${log}`, why: "Its last line was not finished" }));
  const [first, last] = [given?.inputs.issue ?? null, newest?.issue ?? null];
  if (first !== null && last !== null && `${first.title}\n${first.body}` !== `${last.title}\n${last.body}`)
    losses.push({ path: "inputs.issue", why: "The issue was edited while the run went on; its first wording is told" });
  return losses;
}
