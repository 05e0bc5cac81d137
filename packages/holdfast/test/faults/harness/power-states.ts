import type { Disk, NameChange } from "./disk.ts";
import type { FileNode } from "./file-bytes.ts";
import { contentAfter, sizeOf } from "./file-bytes.ts";
import type { Chance } from "./seed.ts";
import { isFullRun } from "./seed.ts";
import type { WorldFolder } from "./world.ts";

const SECTOR = 512;

/**
 * Folders that may be found when the power goes now: nothing unsynced survived, and by chance others out of: everything,
 * names without bytes, bytes without names, any mixture. A full run takes all of the plain ones and eight mixtures.
 */
export function* powerStates(params: {
  readonly disk: Disk;
  readonly chance: Chance;
  readonly count: number;
}): Generator<WorldFolder> {
  const { disk, chance } = params;
  const all = (file: FileNode): Buffer => contentAfter(file, file.pending.length);
  const none = (file: FileNode): Buffer => file.durable;
  const mixture = (): WorldFolder =>
    disk.build(survivingNames(disk, chance), (file) => survivingBytes(disk, file, chance));
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

function nextSector(at: number): number {
  return (Math.floor(at / SECTOR) + 1) * SECTOR;
}
