import { createHash } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/**
 * Ways to save a file, from wrong to right, to prove that the harness distinguishes them.
 * Usage: toy <way> <folder> <saves>
 */
const WAYS = {
  naive: (folder: string, text: string): void => writeFileSync(join(folder, "state"), text),
  rename: (folder: string, text: string): void => {
    writeFileSync(join(folder, "temporary"), text);
    renameSync(join(folder, "temporary"), join(folder, "state"));
  },
  "fsync-rename": (folder: string, text: string): void => {
    writeSynced(join(folder, "temporary"), text);
    renameSync(join(folder, "temporary"), join(folder, "state"));
  },
  right: (folder: string, text: string): void => {
    writeSynced(join(folder, "temporary"), text);
    renameSync(join(folder, "temporary"), join(folder, "state"));
    syncFolder(folder);
  },
  /** Believes the second sync of the same bytes: after a failed one, the kernel has dropped them. */
  "fsync-again": (folder: string, text: string): void => {
    const file = openSync(join(folder, "temporary"), "w");
    writeFileSync(file, text);
    try {
      fsyncSync(file);
    } catch {
      fsyncSync(file);
    }
    closeSync(file);
    renameSync(join(folder, "temporary"), join(folder, "state"));
    syncFolder(folder);
  },
  "write-again": (folder: string, text: string): void => {
    try {
      WAYS.right(folder, text);
    } catch {
      WAYS.right(folder, text);
    }
  },
} as const;

const [, , way = "", folder = "", saves = "3"] = process.argv;
const save = Object.entries(WAYS).find(([name]) => name === way)?.[1];
if (save === undefined) throw new Error(`no way to save is called ${way}`);

mkdirSync(join(folder, "inner"));
syncFolder(folder);
for (let sequence = 1; sequence <= Number(saves); sequence += 1) {
  const body = `${sequence}\n${String(sequence).repeat(9_500)}`;
  save(join(folder, "inner"), `${createHash("sha256").update(body).digest("hex")}\n${body}`);
  writeSync(1, `ACK ${sequence}\n`);
}

function writeSynced(path: string, text: string): void {
  const file = openSync(path, "w");
  writeFileSync(file, text);
  fsyncSync(file);
  closeSync(file);
}

function syncFolder(path: string): void {
  const handle = openSync(path, "r");
  fsyncSync(handle);
  closeSync(handle);
}
