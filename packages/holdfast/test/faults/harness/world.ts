import { createHash } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  linkSync,
} from "node:fs";
import { join } from "node:path";

/** A folder with all that is in it, as values: what is found on disk after a crash, or what must be put there. */
export type WorldNode = WorldFile | WorldFolder | WorldLink;
export interface WorldFile {
  readonly kind: "file";
  /** Same for two names of one file. */
  readonly ino: number;
  readonly bytes: Buffer;
  readonly mode: number;
}
export interface WorldFolder {
  readonly kind: "folder";
  readonly ino: number;
  readonly mode: number;
  readonly entries: ReadonlyMap<string, WorldNode>;
}
export interface WorldLink {
  readonly kind: "symlink";
  readonly ino: number;
  readonly target: string;
}

const PERMISSIONS = 0o7777;

/** `without`: names directly in it that are passed over. */
export function readWorld(path: string, without: readonly string[] = []): WorldFolder {
  const node = readNode(path, without);
  if (node.kind !== "folder") throw new Error(`${path} is no folder`);
  return node;
}

function readNode(path: string, without: readonly string[] = []): WorldNode {
  const stat = lstatSync(path);
  const common = { ino: stat.ino, mode: stat.mode & PERMISSIONS };
  if (stat.isSymbolicLink()) return { kind: "symlink", ino: stat.ino, target: readlinkSync(path) };
  if (stat.isFile()) return { kind: "file", ...common, bytes: readFileSync(path) };
  if (!stat.isDirectory()) throw new Error(`${path} is neither file, folder nor link`);
  const names = readdirSync(path).filter((name) => !isVolatile(name) && !without.includes(name));
  return { kind: "folder", ...common, entries: new Map(names.map((name) => [name, readNode(join(path, name))])) };
}

/** SQLite's shared memory is not part of the durable state. */
function isVolatile(name: string): boolean {
  return name.endsWith("-shm");
}

/** Creates the folder at `path` with the contents of the world. */
export function writeWorld(path: string, world: WorldFolder): void {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  writeEntries(path, world, new Map());
}

function writeEntries(path: string, folder: WorldFolder, placed: Map<number, string>): void {
  for (const [name, node] of folder.entries) {
    const place = join(path, name);
    switch (node.kind) {
      case "folder":
        mkdirSync(place);
        writeEntries(place, node, placed);
        break;
      case "symlink":
        symlinkSync(node.target, place);
        break;
      case "file": {
        const twin = placed.get(node.ino);
        if (twin === undefined) writeFileSync(place, node.bytes, { mode: node.mode });
        else linkSync(twin, place);
        placed.set(node.ino, place);
        break;
      }
    }
  }
  chmodSync(path, folder.mode);
}

/** Names, kinds, permissions and bytes; not inode numbers or times. */
export function digestWorld(world: WorldFolder): string {
  const hash = createHash("sha256");
  const add = (name: string, node: WorldNode): void => {
    switch (node.kind) {
      case "file":
        hash.update(`f ${name} ${node.mode} ${node.bytes.length}\n`).update(node.bytes);
        break;
      case "symlink":
        hash.update(`l ${name} ${node.target}\n`);
        break;
      case "folder":
        hash.update(`d ${name} ${node.mode} ${node.entries.size}\n`);
        for (const key of [...node.entries.keys()].sort()) {
          const entry = node.entries.get(key);
          if (entry !== undefined) add(key, entry);
        }
        break;
    }
  };
  add("", world);
  return hash.digest("hex");
}

/** Paths that differ, for a message. */
export function compareWorlds(left: WorldFolder, right: WorldFolder, at = ""): readonly string[] {
  const differences: string[] = [];
  for (const name of new Set([...left.entries.keys(), ...right.entries.keys()])) {
    const [one, other, path] = [left.entries.get(name), right.entries.get(name), `${at}/${name}`];
    if (one === undefined || other === undefined)
      differences.push(`${path} only ${one === undefined ? "right" : "left"}`);
    else if (one.kind === "folder" && other.kind === "folder") differences.push(...compareWorlds(one, other, path));
    else if (one.kind === "file" && other.kind === "file") {
      if (!one.bytes.equals(other.bytes)) differences.push(`${path} ${one.bytes.length} / ${other.bytes.length} bytes`);
    } else if (one.kind !== other.kind) differences.push(`${path} ${one.kind} / ${other.kind}`);
  }
  return differences;
}
