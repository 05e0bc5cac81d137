import { stat } from "node:fs/promises";
import { HoldfastError } from "../../core/error.ts";
import { runProcess } from "../../system/subprocess.ts";
import type { ProcessResult } from "../../system/subprocess.ts";
import type { Repository } from "../repository.ts";

/**
 * Everything written to the file system of this path so far survives a power cut when this returns. Syncing single files is not
 * enough: git syncs no directory, and objects that another git wrote a moment ago were never synced at all.
 */
export async function syncFileSystem(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const one = process.platform === "linux" ? await sync(["-f", path]) : undefined;
  if (one?.code === 0) return;
  // The plain one cannot fail, whatever the disk says: it may stand in for one that knows no single file systems, and for nothing else.
  if (one !== undefined && !UNKNOWN_OPTION.test(one.stderr.replaceAll(path, ""))) throw failed(path, one.stderr);
  const all = await sync([]);
  if (all.code !== 0) throw failed(path, all.stderr);
}

const UNKNOWN_OPTION = /(?:invalid|unrecognized|unknown|illegal) option|^usage:/im;

function sync(args: readonly string[]): Promise<ProcessResult> {
  return runProcess({ command: "sync", args, env: { ...process.env, LC_ALL: "C" } });
}

/** Refs and objects. Somebody may have moved the objects to a disk of their own. */
export async function syncRepository({ commonDir, objectDirectory }: Repository): Promise<void> {
  await syncFileSystem(commonDir);
  const [own, objects] = await Promise.all([stat(commonDir), stat(objectDirectory)]);
  if (own.dev !== objects.dev) await syncFileSystem(objectDirectory);
}

function failed(path: string, why: string): HoldfastError {
  const isFull = /no space left on device|disk quota exceeded/i.test(why);
  return new HoldfastError({
    code: isFull ? "DISK_FULL" : "IO_FAILED",
    message: `the file system of ${path} could not be synced: ${why}`.trim(),
    hint: isFull
      ? "Free some space and run the command again; nothing was lost."
      : "Look at the system log: the disk may be failing. What was written may not survive a power cut.",
    ...(isFull ? { retry: "later" as const } : {}),
  });
}
