import { HoldfastError } from "../core/error.ts";
import { runProcess } from "../system/subprocess.ts";

/**
 * Everything written to the file system of this path so far survives a power cut when this returns. Syncing single files is not
 * enough: git syncs no directory, and objects that another git wrote a moment ago were never synced at all.
 */
export async function syncFileSystem(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const one = process.platform === "linux" ? await runProcess({ command: "sync", args: ["-f", path] }) : undefined;
  if (one?.code === 0) return;
  const all = await runProcess({ command: "sync", args: [] });
  if (all.code === 0) return;
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `the file system of ${path} could not be synced: ${one?.stderr ?? all.stderr}`.trim(),
    hint: "Look at the system log: the disk may be failing. What was written may not survive a power cut.",
  });
}
