export type DataChange = {
  /** A sync that should have covered it failed: the kernel has dropped it, and no later sync will bring it to the disk. */
  readonly doomed?: true;
} & (
  | { readonly kind: "write"; readonly offset: number; readonly bytes: Buffer }
  | { readonly kind: "resize"; readonly size: number }
);

export interface FileNode {
  readonly kind: "file";
  readonly id: number;
  mode: number;
  /** As the last sync left it. */
  durable: Buffer;
  /** What no sync has covered yet, in order. */
  pending: DataChange[];
}

/** The bytes with the first `changes` of the pending ones applied. */
export function contentAfter(file: FileNode, changes: number): Buffer {
  return changes === 0 ? file.durable : applied(file.durable, file.pending.slice(0, changes));
}

export function sizeOf(file: FileNode, changes = file.pending.length): number {
  let size = file.durable.length;
  for (const change of file.pending.slice(0, changes)) {
    size = change.kind === "resize" ? change.size : Math.max(size, change.offset + change.bytes.length);
  }
  return size;
}

/** A sync that succeeded: the first `changes` of the pending ones are on the disk, but for those that were dropped before. */
export function settle(file: FileNode, changes = file.pending.length): void {
  if (changes === 0) return;
  file.durable = applied(
    file.durable,
    file.pending.slice(0, changes).filter((change) => change.doomed !== true),
  );
  file.pending = file.pending.slice(changes);
}

export function doom(file: FileNode): void {
  file.pending = file.pending.map((change) => ({ ...change, doomed: true }));
}

function applied(durable: Buffer, changes: readonly DataChange[]): Buffer {
  const ends = changes.map((change) => (change.kind === "write" ? change.offset + change.bytes.length : change.size));
  const bytes = Buffer.alloc(ends.reduce((most, end) => Math.max(most, end), durable.length));
  durable.copy(bytes);
  let size = durable.length;
  for (const change of changes) {
    if (change.kind === "write") {
      change.bytes.copy(bytes, change.offset);
      size = Math.max(size, change.offset + change.bytes.length);
    } else {
      // What is cut off and grown again reads as zeros.
      if (change.size < size) bytes.fill(0, change.size, size);
      size = change.size;
    }
  }
  return bytes.subarray(0, size);
}
