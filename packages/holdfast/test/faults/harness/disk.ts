import type { FileNode } from "./file-bytes.ts";
import { contentAfter, doom, settle, sizeOf } from "./file-bytes.ts";
import type { Operation } from "./operation.ts";
import type { WorldFolder, WorldNode } from "./world.ts";

/**
 * What a file system must keep, and what it may still lose. Fed with the operations in order it knows, at any moment,
 * the durable part of every file and folder and the changes that no sync has covered yet.
 *
 * posix: a sync of a file covers its bytes, a sync of a folder covers its names, nothing else.
 * ext4:  any sync commits the journal, hence all names up to now; of bytes only the file's own.
 */
export type Model = "posix" | "ext4";

export interface FolderNode {
  readonly kind: "folder";
  readonly id: number;
  readonly mode: number;
  readonly durable: Map<string, Node>;
  /** As every process sees it: all changes applied. */
  readonly seen: Map<string, Node>;
}
export interface LinkNode {
  readonly kind: "symlink";
  readonly id: number;
  readonly target: string;
}
export type Node = FileNode | FolderNode | LinkNode;

/** One name in one folder, and what it means after the change. */
interface Slot {
  readonly folder: FolderNode;
  readonly name: string;
  readonly node: Node | undefined;
}
/** All slots of a change appear together (a rename has two). */
export interface NameChange {
  slots: readonly Slot[];
}

export class Disk {
  readonly model: Model;
  readonly root: FolderNode;
  readonly files = new Set<FileNode>();
  names: NameChange[] = [];
  /** How many of a file's pending changes were written out. */
  #writtenOut = new Map<FileNode, number>();
  #byIno = new Map<number, Node>();
  #nextId = 1;
  #rootPath: string;

  constructor(params: { readonly model: Model; readonly rootPath: string; readonly world: WorldFolder }) {
    this.model = params.model;
    this.#rootPath = params.rootPath;
    const root = this.#adopt(params.world);
    if (root.kind !== "folder") throw new Error("the root must be a folder");
    this.root = root;
  }

  apply(operation: Operation): void {
    switch (operation.kind) {
      case "create": {
        const file: FileNode = {
          kind: "file",
          id: this.#id(),
          mode: operation.mode & 0o7777,
          durable: Buffer.alloc(0),
          pending: [],
        };
        this.files.add(file);
        this.#bind(operation, file);
        return;
      }
      case "mkdir":
        this.#bind(operation, {
          kind: "folder",
          id: this.#id(),
          mode: operation.mode & 0o7777,
          durable: new Map(),
          seen: new Map(),
        });
        return;
      case "symlink":
        this.#bind(operation, { kind: "symlink", id: this.#id(), target: operation.target });
        return;
      case "link":
        this.#rename([{ ...this.#place(operation.to), node: this.#node(operation.ino, operation.path) }]);
        return;
      case "unlink":
      case "rmdir":
        this.#rename([{ ...this.#place(operation.path), node: undefined }]);
        return;
      case "rename": {
        const [from, to] = [this.#place(operation.path), this.#place(operation.to)];
        const [moved, replaced] = [this.#lookUp(from), this.#lookUp(to)];
        if (moved === replaced) return;
        this.#rename([
          { ...from, node: operation.exchange ? replaced : undefined },
          { ...to, node: moved },
        ]);
        return;
      }
      case "write":
        this.#file(operation).pending.push({ kind: "write", offset: operation.offset, bytes: operation.bytes });
        return;
      case "truncate":
        this.#file(operation).pending.push({ kind: "resize", size: operation.size });
        return;
      case "allocate": {
        const file = this.#file(operation);
        if (operation.size > sizeOf(file)) file.pending.push({ kind: "resize", size: operation.size });
        return;
      }
      case "chmod": {
        // A mode is a label for the owner: it is taken as durable at once, no check depends on it.
        const node = this.#byIno.get(operation.ino);
        if (node?.kind === "file") node.mode = operation.mode & 0o7777;
        return;
      }
      case "fsync":
        this.#sync(operation.ino, operation.path);
        return;
      case "writeout":
        // POSIX has no such call. A journal commits what was written out with its next transaction.
        if (this.model === "ext4") {
          const file = this.#file(operation);
          this.#writtenOut.set(file, file.pending.length);
        }
        return;
      case "sync":
        for (const file of this.files) settle(file);
        this.#makeDurable(this.names);
        return;
      case "map":
        throw new Error(`${operation.path} is written through memory, which the tracer cannot see`);
      case "failed": {
        const node = this.#byIno.get(operation.ino);
        if (node?.kind === "file" && operation.what.endsWith("sync")) doom(node);
        return;
      }
      case "open":
      case "print":
        return;
    }
  }

  /** Folders touched by these changes, as they are with them. */
  entriesAfter(changes: readonly NameChange[]): Map<FolderNode, Map<string, Node>> {
    const entries = new Map<FolderNode, Map<string, Node>>();
    for (const { slots } of changes) {
      for (const slot of slots) {
        const names = entries.get(slot.folder) ?? new Map(slot.folder.durable);
        entries.set(slot.folder, names);
        if (slot.node === undefined) names.delete(slot.name);
        else names.set(slot.name, slot.node);
      }
    }
    return entries;
  }

  /** The folder that is found when these name changes and these bytes survive. */
  build(changes: readonly NameChange[], bytesOf: (file: FileNode) => Buffer): WorldFolder {
    const entries = this.entriesAfter(changes);
    const built = new Map<FileNode, Buffer>();
    const convert = (node: Node): WorldNode => {
      switch (node.kind) {
        case "symlink":
          return { kind: "symlink", ino: node.id, target: node.target };
        case "file": {
          const bytes = built.get(node) ?? bytesOf(node);
          built.set(node, bytes);
          return { kind: "file", ino: node.id, mode: node.mode, bytes };
        }
        case "folder":
          return folder(node);
      }
    };
    const folder = (node: FolderNode): WorldFolder => {
      const names = entries.get(node) ?? node.durable;
      return {
        kind: "folder",
        ino: node.id,
        mode: node.mode,
        entries: new Map([...names].map(([name, child]) => [name, convert(child)])),
      };
    };
    return folder(this.root);
  }

  /** After kill -9: the page cache survives, so everything does. */
  afterKill(): WorldFolder {
    return this.build(this.names, (file) => contentAfter(file, file.pending.length));
  }

  #sync(ino: number, path: string): void {
    const node = this.#node(ino, path);
    if (node.kind === "file") settle(node);
    if (this.model === "ext4") {
      for (const [file, changes] of this.#writtenOut) settle(file, Math.min(changes, file.pending.length));
      this.#writtenOut.clear();
      this.#makeDurable(this.names);
    } else if (node.kind === "folder")
      this.#makeDurable(this.names.filter(({ slots }) => slots.some((slot) => slot.folder === node)));
  }

  #makeDurable(changes: readonly NameChange[]): void {
    const settled = new Set(changes);
    const later: NameChange[] = [];
    for (const [folder, names] of this.entriesAfter(changes)) {
      for (const name of folder.durable.keys()) if (!names.has(name)) folder.durable.delete(name);
      for (const [name, node] of names) folder.durable.set(name, node);
    }
    // A slot that is durable now must not be undone by an older, still pending change of the same name.
    const newestSettled = new Set<string>();
    for (const change of this.names.toReversed()) {
      const keys = change.slots.map((slot) => `${slot.folder.id}/${slot.name}`);
      if (settled.has(change)) for (const key of keys) newestSettled.add(key);
      else {
        const slots = change.slots.filter((_, i) => !newestSettled.has(keys[i] ?? ""));
        if (slots.length > 0) later.unshift({ slots });
      }
    }
    this.names = later;
  }

  #bind(operation: { readonly ino: number; readonly path: string }, node: Node): void {
    this.#byIno.set(operation.ino, node);
    this.#rename([{ ...this.#place(operation.path), node }]);
  }

  #rename(slots: readonly Slot[]): void {
    this.names.push({ slots });
    for (const { folder, name, node } of slots) {
      if (node === undefined) folder.seen.delete(name);
      else folder.seen.set(name, node);
    }
  }

  #place(path: string): { readonly folder: FolderNode; readonly name: string } {
    const parts = path.slice(this.#rootPath.length + 1).split("/");
    const name = parts.pop() ?? "";
    let folder = this.root;
    for (const part of parts) {
      const next = folder.seen.get(part);
      if (next?.kind !== "folder") throw new Error(`the model has no folder ${part} on the way to ${path}`);
      folder = next;
    }
    return { folder, name };
  }

  #lookUp(place: { readonly folder: FolderNode; readonly name: string }): Node | undefined {
    return place.folder.seen.get(place.name);
  }

  #node(ino: number, path: string): Node {
    const node = this.#byIno.get(ino);
    if (node === undefined) throw new Error(`the model does not know inode ${ino} (${path})`);
    return node;
  }

  #file(operation: { readonly ino: number; readonly path: string }): FileNode {
    const node = this.#node(operation.ino, operation.path);
    if (node.kind !== "file") throw new Error(`${operation.path} is no file in the model`);
    return node;
  }

  #id(): number {
    this.#nextId += 1;
    return this.#nextId;
  }

  #adopt(world: WorldNode): Node {
    const known = this.#byIno.get(world.ino);
    if (known !== undefined) return known;
    const node = this.#convert(world);
    this.#byIno.set(world.ino, node);
    return node;
  }

  #convert(world: WorldNode): Node {
    switch (world.kind) {
      case "symlink":
        return { kind: "symlink", id: this.#id(), target: world.target };
      case "file": {
        const file: FileNode = { kind: "file", id: this.#id(), mode: world.mode, durable: world.bytes, pending: [] };
        this.files.add(file);
        return file;
      }
      case "folder": {
        const entries = new Map([...world.entries].map(([name, child]) => [name, this.#adopt(child)]));
        return { kind: "folder", id: this.#id(), mode: world.mode, durable: entries, seen: new Map(entries) };
      }
    }
  }
}
