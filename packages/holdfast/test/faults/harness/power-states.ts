import type { Disk, NameChange } from "./disk.ts";
import type { FileNode } from "./file-bytes.ts";
import { contentAfter, sizeOf } from "./file-bytes.ts";
import type { Chance } from "./seed.ts";
import { isFullRun } from "./seed.ts";
import type { WorldFolder } from "./world.ts";

const SECTOR = 512;

/**
 * Folders that may be found when the power goes now: nothing unsynced survived, and by chance others out of: everything,
 * names without bytes, bytes without names, any mixture, in which the disk was in the middle of a sector. A full run takes all of the plain ones and eight mixtures.
 */
export function* powerStates(params: {
  readonly disk: Disk;
  readonly chance: Chance;
  readonly count: number;
}): Generator<WorldFolder> {
  const { disk, chance } = params;
  const all = (file: FileNode): Buffer => contentAfter(file, file.pending.length);
  const none = (file: FileNode): Buffer => file.durable;
  const mixture = (): WorldFolder => {
    const torn = chooseTear(disk, chance);
    return disk.build(survivingNames(disk, chance), (file) => {
      const bytes = survivingBytes(disk, file, chance);
      return torn?.file === file ? tornIn(bytes, torn) : bytes;
    });
  };
  const plain = [
    (): WorldFolder => disk.build(disk.names, none),
    () => disk.build([], all),
    () => disk.build(disk.names, all),
  ];
  yield disk.build([], none);
  if (isFullRun()) {
    for (const state of plain) yield state();
    for (let i = 0; i < 8; i += 1) yield mixture();
    return;
  }
  for (let i = 1; i < params.count; i += 1) yield (plain[chance.below(plain.length * 3)] ?? mixture)();
}

/** posix: any subset. ext4: a journal keeps order, so a prefix. */
function survivingNames(disk: Disk, chance: Chance): readonly NameChange[] {
  switch (disk.model) {
    case "posix":
      return disk.names.filter(() => chance.coin());
    case "ext4":
      return disk.names.slice(0, chance.below(disk.names.length + 1));
  }
}

/**
 * Each sector is found as some moment left it; the size too. posix: independent of each other, so a file may have its
 * full size and holes of zeros. ext4 (ordered): bytes of a grown part are there when the size is.
 */
function survivingBytes(disk: Disk, file: FileNode, chance: Chance): Buffer {
  const moments = file.pending.length;
  if (moments === 0) return file.durable;
  const sizeMoment = chance.below(moments + 1);
  const size = sizeOf(file, sizeMoment);
  const bytes = Buffer.alloc(Math.max(size, sizeOf(file), file.durable.length));
  file.durable.copy(bytes);
  const momentOf = new Map<number, number>();
  const moment = (sector: number): number => {
    const ordered = disk.model === "ext4" && sector * SECTOR >= file.durable.length;
    const chosen = momentOf.get(sector) ?? (ordered ? sizeMoment : chance.below(moments + 1));
    momentOf.set(sector, chosen);
    return chosen;
  };
  file.pending.forEach((change, i) => {
    if (change.kind === "resize") {
      // What is cut off and grown again reads as zeros.
      for (let at = change.size; at < bytes.length; at = nextSector(at)) {
        if (i < moment(Math.floor(at / SECTOR))) bytes.fill(0, at, Math.min(nextSector(at), bytes.length));
      }
      return;
    }
    const end = change.offset + change.bytes.length;
    for (let at = change.offset; at < end; at = nextSector(at)) {
      if (i < moment(Math.floor(at / SECTOR)))
        change.bytes.copy(bytes, at, at - change.offset, Math.min(nextSector(at), end) - change.offset);
    }
  });
  return bytes.subarray(0, size);
}

/** The one sector that the disk was writing when its power went: some first bytes are new, the rest is old. */
interface Tear {
  readonly file: FileNode;
  /** The change that the bytes before `at` have and those behind it have not. */
  readonly change: number;
  readonly at: number;
}

/** ext4 (ordered): the grown part was written out whole before its size was. */
function chooseTear(disk: Disk, chance: Chance): Tear | undefined {
  const tears = [...disk.files].flatMap((file) =>
    file.pending.flatMap((write, change) => {
      if (write.kind !== "write" || write.bytes.length === 0) return [];
      const end = write.offset + write.bytes.length;
      const last = disk.model === "ext4" ? Math.min(end, file.durable.length) : end;
      return write.offset < last ? [{ file, change, from: write.offset, to: last }] : [];
    }),
  );
  const chosen = tears[chance.below(tears.length)];
  if (chosen === undefined) return undefined;
  return { file: chosen.file, change: chosen.change, at: chosen.from + chance.below(chosen.to - chosen.from) };
}

function tornIn(bytes: Buffer, { file, change, at }: Tear): Buffer {
  const start = Math.floor(at / SECTOR) * SECTOR;
  const end = Math.min(nextSector(at), bytes.length);
  if (start >= end) return bytes;
  const torn = Buffer.from(bytes);
  torn.fill(0, start, end);
  torn.set(contentAfter(file, change).subarray(start, end), start);
  torn.set(contentAfter(file, change + 1).subarray(start, Math.min(at, end)), start);
  return torn;
}

function nextSector(at: number): number {
  return (Math.floor(at / SECTOR) + 1) * SECTOR;
}
