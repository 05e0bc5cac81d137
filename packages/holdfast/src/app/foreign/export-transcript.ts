import { join } from "node:path";
import type { RunSummary } from "../../core/run.ts";
import type { Parts } from "../../engine/parts.ts";
import { exportAtif } from "../../formats/atif/export-atif.ts";
import type { Encoded } from "../../formats/format.ts";
import { listAgentLogs, readLogLines } from "../agent-logs.ts";
import { readPackageFile } from "./package-file.ts";

/** A whole run as an ATIF trajectory: its journal, and what its agents said as far as that is kept. */
export async function exportTranscript(parts: Parts, run: RunSummary): Promise<Encoded> {
  const { store } = parts;
  const entries = await Array.fromAsync(store.readJournal({ run: run.id }));
  const logs = [];
  for (const { path, visit, step } of await listAgentLogs(join(store.location, "logs", run.id))) {
    const { lines } = await readLogLines(path, 0);
    logs.push({ visit, step, lines });
  }
  const newest = (await store.latest(run.id))?.planes;
  const { agent, model } = newest?.config ?? { agent: null, model: null };
  const { version } = JSON.parse(readPackageFile("package.json")) as { readonly version?: unknown };
  return exportAtif({
    run,
    entries,
    logs,
    inputs: newest?.inputs ?? null,
    conductor: { version: String(version), agent, model },
  });
}
