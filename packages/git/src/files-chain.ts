// The form of a run's files on a git remote: refs/holdfast/<run>/files/<store> names a chain of commits, one for each snapshot.
//
//   files      the tree of the snapshot
//   index      the user's index at that snapshot
//   snapshot   the bytes of the snapshot's tag, from which the receiver makes the tag again
//
// The first parent is the commit before it in the chain, the second one the HEAD that the snapshot was taken at. The chain begins with an
// empty commit without a parent. Git finds out by commits what the other side has, and compares trees at equal paths. So snapshots are sent
// as commits with a fixed path: as tags of trees they would be sent whole each time. The commits are in no ref here, because
// `git log --all` would show them.

import { isObjectId } from "@holdfast/core/journal";
import { SNAPSHOT_AUTHOR } from "./commits.ts";

/** A snapshot, or a commit that a run keeps. */
export interface ChainEntry {
  /** Its ref below refs/holdfast/<run>/, such as `7` or `side/<commit>`. */
  readonly name: string;
  /** The tag of the snapshot, or the commit. */
  readonly id: string;
}

/** A stored object that an entry names. */
export type EntryObject =
  | {
      readonly kind: "snapshot";
      readonly bytes: Buffer;
      readonly tree: string;
      readonly head: string | null;
      readonly index: string | null;
    }
  | { readonly kind: "commit"; readonly tree: string };

/** Only these refs of a run are sent and accepted. Those of HEADs and indexes are made from the snapshot. */
const ENTRY_NAME = /^(?:[1-9]\d{0,8}(?:-[0-9a-f]{1,65})?|(?:side|kept)\/[0-9a-f]{40,65})$/;

/** The refs of a run that are sent, snapshots first and in their order: each is close to the one before it. */
export function entriesOf(run: string, refs: ReadonlyMap<string, string>): readonly ChainEntry[] {
  const prefix = `refs/holdfast/${run}/`;
  const entries = [...refs].flatMap(([ref, id]) => {
    const name = ref.startsWith(prefix) ? ref.slice(prefix.length) : "";
    return ENTRY_NAME.test(name) && isObjectId(id) ? [{ name, id }] : [];
  });
  const order = ({ name }: ChainEntry): number => (/^\d/.test(name) ? Number.parseInt(name, 10) : Infinity);
  return entries.toSorted((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1));
}

/** Those of the entries whose object is not in the chain, whatever its name there. */
export function missingEntries(entries: readonly ChainEntry[], chain: readonly ChainEntry[]): readonly ChainEntry[] {
  const known = new Set(chain.map(({ id }) => id));
  return entries.filter(({ id }) => !known.has(id));
}

export function parseEntryObject(type: string, bytes: Buffer): EntryObject | null {
  const text = bytes.toString("utf8");
  const idIn = (line: RegExp): string | null => [...text.matchAll(line)].at(-1)?.[1] ?? null;
  if (type === "commit") {
    const tree = /^tree ([0-9a-f]{40,64})\n/.exec(text)?.[1];
    return tree === undefined ? null : { kind: "commit", tree };
  }
  const tree = /^object ([0-9a-f]{40,64})\ntype tree\n/.exec(text)?.[1];
  if (type !== "tag" || tree === undefined) return null;
  const head = idIn(/^Holdfast-Head: ([0-9a-f]{40,64})$/gm);
  return { kind: "snapshot", bytes, tree, head, index: idIn(/^Holdfast-Index: ([0-9a-f]{40,64})$/gm) };
}

/** The tree of a chain's commit. `snapshot`: the blob with the tag's bytes. `staged`: the tree whose files the index names. */
export function chainTree(params: {
  readonly files: string;
  readonly index: string | null;
  readonly snapshot: string | null;
  readonly staged: string | null;
}): Buffer {
  const { files, index, snapshot, staged } = params;
  const entry = (mode: string, name: string, id: string): Buffer =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]);
  return Buffer.concat([
    entry("40000", "files", files),
    ...(index === null ? [] : [entry("100644", "index", index)]),
    ...(snapshot === null ? [] : [entry("100644", "snapshot", snapshot)]),
    ...(staged === null ? [] : [entry("40000", "staged", staged)]),
  ]);
}

/** The same arguments always make the same id, so that a repeated push sends nothing new. */
export function chainCommit(params: {
  readonly tree: string;
  readonly parents: readonly string[];
  readonly entry: ChainEntry;
}): Buffer {
  const { tree, parents, entry } = params;
  const lines = [
    `tree ${tree}`,
    ...[...new Set(parents)].map((parent) => `parent ${parent}`),
    `author ${SNAPSHOT_AUTHOR} 0 +0000`,
    `committer ${SNAPSHOT_AUTHOR} 0 +0000`,
    "",
    entry.name,
    "",
    `Holdfast-Object: ${entry.id}`,
  ];
  return Buffer.from(`${lines.join("\n")}\n`);
}

/** The first commit of every chain. */
export function chainRoot(emptyTree: string): Buffer {
  const by = `${SNAPSHOT_AUTHOR} 0 +0000`;
  return Buffer.from(`tree ${emptyTree}\nauthor ${by}\ncommitter ${by}\n\nFiles of a run\n`);
}

/** A commit that another machine wrote; null: it is not one of a chain. */
export function parseChainCommit(
  bytes: Buffer,
): { readonly entry: ChainEntry; readonly parents: readonly string[] } | null {
  const text = bytes.toString("utf8");
  const end = text.indexOf("\n\n");
  const [, name, id] = /^\n\n(\S+)\n\nHoldfast-Object: ([0-9a-f]+)\n$/.exec(text.slice(end)) ?? [];
  if (end === -1 || name === undefined || id === undefined || !ENTRY_NAME.test(name) || !isObjectId(id)) return null;
  const parents = Array.from(text.slice(0, end).matchAll(/^parent ([0-9a-f]{40,64})$/gm), ([, parent]) => parent ?? "");
  return { entry: { name, id }, parents };
}

/** What this machine last knew of the chain on the remote. It can be deleted: the next push or fetch asks the remote. */
export interface ChainRecord {
  readonly remote: string;
  readonly tip: string | null;
  readonly entries: readonly ChainEntry[];
  /** Why the last push failed; null: it did not. */
  readonly problem: string | null;
}

export function parseRecord(text: string, remote: string): ChainRecord {
  const none: ChainRecord = { remote, tip: null, entries: [], problem: null };
  const [first = "", problem = "", ...lines] = text.split("\n");
  const [tip = "", ...url] = first.split(" ");
  if (url.join(" ") !== JSON.stringify(remote) || (tip !== "-" && !isObjectId(tip)) || lines.at(-1) !== "") return none;
  const entries = lines.slice(0, -1).map((line) => {
    const [id = "", name = ""] = line.split(" ");
    return { id, name };
  });
  if (!entries.every(({ id, name }) => isObjectId(id) && ENTRY_NAME.test(name))) return none;
  return { remote, tip: tip === "-" ? null : tip, entries, problem: problem === "" ? null : problem };
}

export function formatRecord({ remote, tip, entries, problem }: ChainRecord): string {
  const lines = [`${tip ?? "-"} ${JSON.stringify(remote)}`, (problem ?? "").replaceAll(/\s+/g, " ").slice(0, 500)];
  return `${[...lines, ...entries.map(({ id, name }) => `${id} ${name}`)].join("\n")}\n`;
}
