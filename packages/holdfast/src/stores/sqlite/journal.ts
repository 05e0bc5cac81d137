import type { Handle } from "./handle.ts";
import type { LogRow } from "./log.ts";
import { parentOf } from "./summary.ts";
import { type JournalEntry, checkpointBody } from "@holdfast/core/journal";
import { type JsonObject, deepFreeze } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";

/** At most `limit` entries of a run from `after` (exclusive) on. Only inside a read. */
export function journalPage(
  handle: Handle,
  run: { readonly no: number; readonly id: string },
  after: number,
  limit: number,
): readonly JournalEntry[] {
  const page: JournalEntry[] = [];
  for (let entry = after + 1; page.length < limit; entry++) {
    const pos = handle.places.entry(run.no, entry);
    if (pos === undefined) break;
    const row = handle.log.get(pos);
    if (row === undefined) throw gap(run.id, entry);
    page.push(journalEntry(handle, run.id, row));
  }
  return page;
}

export function journalEntry(handle: Pick<Handle, "log" | "hasher">, run: string, row: LogRow): JournalEntry {
  const { entry, kind, epoch, hash, checkpoint } = row;
  const at = new Date(row.at).toISOString();
  if (checkpoint !== null) {
    const body = checkpointBody(checkpoint, parentOf(run, checkpoint));
    return deepFreeze({ run, entry, kind, at, epoch, body, digest: hash, hash });
  }
  const text = handle.log.body(row.pos);
  const body = parseBody(text);
  if (typeof text !== "string" || body === undefined) throw damaged(row);
  return deepFreeze({ run, entry, kind, at, epoch, body, digest: handle.hasher(text), hash });
}

function parseBody(text: string | Uint8Array | null): JsonObject | undefined {
  try {
    const value: unknown = typeof text === "string" ? JSON.parse(text) : undefined;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function damaged(row: LogRow): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The body of journal entry ${row.entry} is damaged`,
    hint: "Run `holdfast verify` to see up to where the journal can be trusted.",
    data: { entry: row.entry },
  });
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function gap(run: string, entry: number): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `Journal entry ${entry} of ${run} is gone`,
    hint: "Run `holdfast verify` to see up to where the journal can be trusted.",
    data: { run, entry },
  });
}
