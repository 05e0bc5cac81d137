import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readWorld } from "../harness/world.ts";
import type { WorldFolder } from "../harness/world.ts";

/** Not a part of any save, and never to be touched. */
export const IGNORED = "ignored.local";

/** What a worktree holds at a given save; made from the sequence alone, as the states are. */
export type WorktreeEntry =
  | { readonly kind: "file"; readonly bytes: Buffer; readonly executable: boolean }
  | { readonly kind: "symlink"; readonly target: string };

/** Changed and new files, untracked ones, a removed one, a mode, a link, one too large for a single page, names that need quoting. */
export function worktreeOf(sequence: number): ReadonlyMap<string, WorktreeEntry> {
  const entries = new Map<string, WorktreeEntry>();
  const file = (path: string, text: string | Buffer, executable = false): void => {
    entries.set(path, { kind: "file", bytes: Buffer.from(text), executable });
  };
  file("README.md", "# A repository\n");
  file(".gitignore", `${IGNORED}\n`);
  file("src/main.ts", `export const sequence = ${sequence};\n`);
  file(`src/only-${sequence}.ts`, `export const only = ${sequence};\n`);
  if (sequence < 2) file("src/removed-later.ts", "export {};\n");
  file("run.sh", "#!/bin/sh\n", sequence >= 2);
  file(`notes/deep/er/Überblick ${sequence}.txt`, `untracked ${sequence}\n`);
  file("large.bin", pattern(sequence < 3 ? 1 : sequence, 90_000));
  entries.set("link", { kind: "symlink", target: `src/only-${sequence}.ts` });
  return entries;
}

/** Makes the worktree equal that state, whatever it holds now; as a user's tools would, without any sync. */
export function writeWorktree(root: string, sequence: number): void {
  const wanted = worktreeOf(sequence);
  for (const path of readWorktree(root).keys()) if (!wanted.has(path)) rmSync(join(root, path));
  for (const [path, entry] of wanted) {
    const place = join(root, path);
    mkdirSync(dirname(place), { recursive: true });
    rmSync(place, { force: true });
    if (entry.kind === "symlink") symlinkSync(entry.target, place);
    else {
      writeFileSync(place, entry.bytes);
      chmodSync(place, entry.executable ? 0o755 : 0o644);
    }
  }
}

export function readWorktree(root: string): ReadonlyMap<string, WorktreeEntry> {
  return new Map(entriesIn(readWorld(root, [".git", IGNORED]), ""));
}

function entriesIn(folder: WorldFolder, below: string): readonly (readonly [string, WorktreeEntry])[] {
  return [...folder.entries].flatMap(([name, node]): readonly (readonly [string, WorktreeEntry])[] => {
    const path = `${below}${name}`;
    switch (node.kind) {
      case "folder":
        return entriesIn(node, `${path}/`);
      case "symlink":
        return [[path, { kind: "symlink", target: node.target }]];
      case "file":
        return [[path, { kind: "file", bytes: node.bytes, executable: (node.mode & 0o100) !== 0 }]];
    }
  });
}

/** Paths at which they are not equal. */
export function differences(
  one: ReadonlyMap<string, WorktreeEntry>,
  other: ReadonlyMap<string, WorktreeEntry>,
): readonly string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter((path) => !sameEntry(one.get(path), other.get(path)));
}

/** Equal in kind, bytes and mode. */
export function sameEntry(one: WorktreeEntry | undefined, other: WorktreeEntry | undefined): boolean {
  if (one?.kind === "file" && other?.kind === "file")
    return one.executable === other.executable && one.bytes.equals(other.bytes);
  if (one?.kind === "symlink" && other?.kind === "symlink") return one.target === other.target;
  return one === undefined && other === undefined;
}

function pattern(seed: number, bytes: number): Buffer {
  const parts: Buffer[] = [];
  for (let i = 0; i * 64 < bytes; i += 1) parts.push(createHash("sha512").update(`${seed} ${i}`).digest());
  return Buffer.concat(parts).subarray(0, bytes);
}
