import type { IndexMemo, LinkEntry, MissingEntry } from "./index-memo.ts";
import type { UserIndex } from "./user-index.ts";

/** What is known about a kept private index. Holds only while both index files are the ones it was made from. */
export interface IndexState {
  /** Which file of ours, and since which start of the machine. */
  readonly index: string;
  readonly boot: string;
  readonly userIndex: UserIndex;
  /** The tree that our index writes. */
  readonly tree: string;
  readonly memo: IndexMemo;
}

export function formatIndexState(state: IndexState): string {
  const { memo } = state;
  return JSON.stringify({
    format: FORMAT,
    index: state.index,
    boot: state.boot,
    userIndex: [state.userIndex.key, state.userIndex.paths, state.userIndex.content],
    tree: state.tree,
    sparse: memo.sparse,
    untracked: [...memo.untracked],
    young: [...memo.young],
    special: [...memo.special],
    missing: [...memo.missing].map(([path, entry]) => [path, entry.mode, entry.id, entry.skip, entry.stored]),
    links: [...memo.links].map(([path, { recorded, stored }]) => [
      path,
      recorded,
      stored?.kind === "link" ? stored.id : stored?.kind,
    ]),
  });
}

/** undefined for anything that is not exactly what `formatIndexState` writes: then the index is built anew. */
export function parseIndexState(text: string): IndexState | undefined {
  const value = parseObject(text);
  if (value === undefined || value["format"] !== FORMAT) return undefined;
  const { index, boot, tree, sparse, untracked, special } = value;
  const userIndex = parseUserIndex(value["userIndex"]);
  if (typeof index !== "string" || typeof boot !== "string" || typeof tree !== "string" || typeof sparse !== "boolean")
    return undefined;
  const missing = parseRows(value["missing"], parseMissing);
  const links = parseRows(value["links"], parseLink);
  const young = parseRows(value["young"], parsePair);
  if (missing === undefined || links === undefined || young === undefined) return undefined;
  if (userIndex === undefined || !isStrings(untracked) || !isStrings(special)) return undefined;
  return {
    index,
    boot,
    userIndex,
    tree,
    memo: {
      untracked: new Set(untracked),
      missing: new Map(missing),
      links: new Map(links),
      young: new Map(young),
      special: new Set(special),
      sparse,
    },
  };
}

const FORMAT = 1;

function parseUserIndex(value: unknown): UserIndex | undefined {
  const [key, paths, content] = Array.isArray(value) ? value : [];
  if (typeof key !== "string" && key !== null) return undefined;
  return typeof paths === "string" && typeof content === "string" ? { key, paths, content } : undefined;
}

function parseMissing(row: readonly unknown[]): [string, MissingEntry] | undefined {
  const [path, mode, id, skip, stored] = row;
  if (typeof path !== "string" || typeof mode !== "string" || typeof id !== "string") return undefined;
  if (typeof skip !== "boolean" || typeof stored !== "boolean") return undefined;
  return [path, { mode, id, skip, stored }];
}

function parseLink(row: readonly unknown[]): [string, LinkEntry] | undefined {
  const [path, recorded, stored] = row;
  if (typeof path !== "string" || typeof recorded !== "string") return undefined;
  if (stored === null || stored === undefined) return [path, { recorded, stored: null }];
  if (typeof stored !== "string") return undefined;
  return [path, { recorded, stored: stored === "file" ? { kind: "file" } : { kind: "link", id: stored } }];
}

function parsePair(row: readonly unknown[]): [string, string] | undefined {
  const [path, mark] = row;
  return typeof path === "string" && typeof mark === "string" ? [path, mark] : undefined;
}

function parseRows<T>(value: unknown, parse: (row: readonly unknown[]) => T | undefined): T[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const rows: T[] = [];
  for (const item of value) {
    const row = Array.isArray(item) ? parse(item) : undefined;
    if (row === undefined) return undefined;
    rows.push(row);
  }
  return rows;
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
