// The size limit of a store (`store.maxSize`): what counts, when to warn, and when runs wait. Nothing is dropped because of it.

import { HoldfastError } from "@holdfast/platform/error";
import type { CoreAdapters } from "./adapters.ts";

type Measured = Pick<CoreAdapters, "store" | "workspaces" | "maxStoreBytes">;

export interface StoreSize {
  readonly limit: number;
  /** The database with its log. */
  readonly database: number;
  /** Git objects that only Holdfast's refs keep. */
  readonly objects: number;
}

const WARN_FROM = 0.8;
const LARGEST_SHOWN = 3;
const CHECKPOINT_PAGE = 500;

/** null: there is no limit. */
export async function measureStore({ store, workspaces, maxStoreBytes }: Measured): Promise<StoreSize | null> {
  if (maxStoreBytes === undefined) return null;
  const [{ bytes }, objects] = await Promise.all([store.stats(), workspaces?.pinnedBytes() ?? 0]);
  return { limit: maxStoreBytes, database: bytes, objects };
}

export function sizeLevel({ limit, database, objects }: StoreSize): "within" | "near" | "reached" {
  const used = database + objects;
  if (used >= limit) return "reached";
  return used >= WARN_FROM * limit ? "near" : "within";
}

/** How much is used, and by which runs most. */
async function describeSize(adapters: Measured, size: StoreSize): Promise<string> {
  const { limit, database, objects } = size;
  const runs = await largestRuns(adapters);
  const largest =
    runs.length === 0 ? "" : ` Largest: ${runs.map(({ run, bytes }) => `${run} ${byteText(bytes)}`).join(", ")}.`;
  return `The store uses ${byteText(database + objects)} of ${byteText(limit)} (store.maxSize): database ${byteText(database)}, git objects ${byteText(objects)}.${largest}`;
}

/** What the checkpoints of a run added to the database, and the git objects that its refs keep. */
async function largestRuns({ store, workspaces }: Measured): Promise<readonly { run: string; bytes: number }[]> {
  const sizes: { run: string; bytes: number }[] = [];
  for (const { id } of await store.listRuns()) {
    let bytes = (await workspaces?.pinnedBytes(id)) ?? 0;
    for (let before: number | undefined; ;) {
      const page = await store.listCheckpoints({
        run: id,
        limit: CHECKPOINT_PAGE,
        ...(before === undefined ? {} : { before }),
      });
      bytes += page.reduce((sum, { size }) => sum + size.added, 0);
      before = page.at(-1)?.sequence;
      if (before === undefined) break;
    }
    sizes.push({ run: id, bytes });
  }
  return sizes.toSorted((one, other) => other.bytes - one.bytes).slice(0, LARGEST_SHOWN);
}

export interface SizeReport {
  readonly level: "near" | "reached";
  readonly text: string;
}

/** null: there is no limit, or it is not near. */
export async function reportSize(adapters: Measured): Promise<SizeReport | null> {
  const size = await measureStore(adapters);
  return size === null ? null : await reportOf(adapters, size);
}

async function reportOf(adapters: Measured, size: StoreSize): Promise<SizeReport | null> {
  const level = sizeLevel(size);
  if (level === "within") return null;
  const next = level === "near" ? "Runs wait when it is full." : "Runs wait until there is space.";
  return { level, text: `${await describeSize(adapters, size)} ${next}` };
}

/**
 * Throws DISK_FULL when the limit is reached, so that the run waits for space; returns a warning when it is near. The
 * warning reads every run, so it is made only if none was reported yet.
 */
export async function checkStoreSize(adapters: Measured, reported: boolean): Promise<string | null> {
  const size = await measureStore(adapters);
  if (size === null || (reported && sizeLevel(size) !== "reached")) return null;
  const report = await reportOf(adapters, size);
  if (report?.level !== "reached") return report?.text ?? null;
  throw new HoldfastError({
    code: "DISK_FULL",
    message: report.text,
    hint: SIZE_HINT,
    retry: "later",
    data: { maxSize: adapters.maxStoreBytes },
  });
}

export const SIZE_HINT =
  "Drop what retention allows with `holdfast gc`, or raise store.maxSize in holdfast.config.yaml.";

/** "20 MB": decimal units, as disks and the config file use them, with two digits where they help. */
export function byteText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  let value = bytes;
  for (const unit of BYTE_UNITS) {
    value /= 1000;
    if (value < 999.5 || unit === LAST) return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${unit}`;
  }
  return `${bytes} B`;
}

const LAST = "PB";
const BYTE_UNITS = ["kB", "MB", "GB", "TB", LAST];
