// Which file system a path is on, and whether a store can be kept there.

import { execFileSync } from "node:child_process";
import { realpathSync, statfsSync } from "node:fs";
import { release } from "node:os";
import { dirname } from "node:path";

/**
 * The type of a file system on which SQLite's log, locks or flushes do not work; null if it is none, or unknown. The path
 * need not exist.
 */
export function unsafeFileSystem(path: string, platform: NodeJS.Platform = process.platform): string | null {
  const folder = existingFolder(path);
  if (platform === "darwin") return unsafeMount(readMounts(), folder);
  return platform === "linux" ? unsafeMagic(statfsSync(folder).type, release()) : null;
}

function existingFolder(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return dirname(path) === path ? path : existingFolder(dirname(path));
  }
}

/** From `f_type` of statfs. On WSL, 9p is a Windows drive; elsewhere a virtual machine may use it for its own disk. */
export function unsafeMagic(type: number, kernel: string): string | null {
  if (type === NINE_P) return /microsoft/i.test(kernel) ? "9p (a Windows drive)" : null;
  return MAGICS.get(type >>> 0) ?? null;
}

const NINE_P = 0x01021997;
const MAGICS: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x2011bab0, "exfat"],
]);

/** From the output of `mount` on macOS: the innermost mount that contains the folder. */
export function unsafeMount(mounts: string, folder: string): string | null {
  const found = mounts
    .split("\n")
    .map((line) => /^.* on (\/.*) \(([^,)]+)[^()]*\)$/.exec(line))
    .filter((match) => match !== null)
    .filter(([, point = ""]) => point === "/" || folder === point || folder.startsWith(`${point}/`))
    .toSorted(([, one = ""], [, other = ""]) => other.length - one.length)[0];
  const type = found?.[2];
  return type !== undefined && UNSAFE_MOUNTS.has(type) ? type : null;
}

const UNSAFE_MOUNTS: ReadonlySet<string> = new Set(["nfs", "smbfs", "afpfs", "webdav", "exfat", "msdos"]);

function readMounts(): string {
  try {
    return execFileSync("/sbin/mount", { encoding: "utf8", timeout: 10_000, stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return "";
  }
}
