import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeDurable } from "../../system/durable-file.ts";
import type { CapturePlace } from "../capture/capture.ts";

/** The last rebase of this worktree: what it was asked for and what it made. */
export interface RebaseRecord {
  readonly branch: string;
  readonly from: string;
  readonly to: string;
  readonly onto: string;
  readonly at: string;
}

export function writeRebase(place: CapturePlace, record: RebaseRecord): void {
  const data = Buffer.from(`${JSON.stringify({ version: 1, ...record })}\n`);
  writeDurable({ path: join(place.home, FILE), data, mode: "replace" });
}

/** What cannot be read is no record: then the rebase is worked out anew, to the same end. */
export async function readRebase(place: CapturePlace): Promise<RebaseRecord | undefined> {
  const text = await readFile(join(place.home, FILE), "utf8").catch(() => "");
  return parseRebase(text);
}

export function parseRebase(text: string): RebaseRecord | undefined {
  try {
    const value: Partial<Record<string, unknown>> | null = JSON.parse(text);
    const { version, branch, from, to, onto, at } = value ?? {};
    if (version !== 1 || typeof branch !== "string" || typeof at !== "string") return undefined;
    if (typeof from !== "string" || typeof to !== "string" || typeof onto !== "string") return undefined;
    return { branch, from, to, onto, at };
  } catch {
    return undefined;
  }
}

const FILE = "last-rebase.json";
