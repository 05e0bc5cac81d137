/** Reads the raw output that the agents of a run printed, one log file per call. */
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** The raw output of one agent call. */
export interface AgentLogFile {
  readonly path: string;
  readonly stageAttempt: number;
  readonly step: string;
  readonly bytes: number;
  readonly modifiedAt: string;
}

/** Lists the logs in the order of the calls; empty for a run that called no agent. */
export async function listAgentLogs(directory: string): Promise<readonly AgentLogFile[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  const files: AgentLogFile[] = [];
  for (const name of names) {
    const [, stageAttempt, step] = /^(\d+)-(.+)\.log$/.exec(name) ?? [];
    if (stageAttempt === undefined || step === undefined) continue;
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    files.push({
      path,
      stageAttempt: Number(stageAttempt),
      step: decodeStep(step),
      bytes: found.size,
      modifiedAt: found.mtime.toISOString(),
    });
  }
  return files.toSorted(
    (a, b) => a.stageAttempt - b.stageAttempt || compare(a.modifiedAt, b.modifiedAt) || compare(a.path, b.path),
  );
}

/** Reads whole lines from the byte `start` on. An incomplete last line is left for the next read. */
export async function readLogLines(
  path: string,
  start: number,
): Promise<{ readonly lines: readonly string[]; readonly next: number }> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path, { start })) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const end = bytes.lastIndexOf(0x0a) + 1;
  const text = bytes.subarray(0, end).toString("utf8");
  return { lines: text === "" ? [] : text.slice(0, -1).split("\n"), next: start + end };
}

function decodeStep(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
