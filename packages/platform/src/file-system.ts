// Which file system a path is on, whether a store can be kept there, and whether a cloud service syncs it.

import { execFileSync } from "node:child_process";
import { realpathSync, statSync, statfsSync } from "node:fs";
import { release } from "node:os";
import { basename, dirname, join } from "node:path";

/**
 * The type of a file system on which SQLite's log, locks or flushes do not work; null if it is none, or unknown. The path
 * need not exist.
 */
export function unsafeFileSystem(path: string, platform: NodeJS.Platform = process.platform): string | null {
  const folder = existingFolder(path);
  if (platform === "darwin") return unsafeMount(readMounts(), folder);
  return platform === "linux" ? unsafeMagic(statfsSync(folder).type, release()) : null;
}

/** What `doctor` reports about the disk of a folder. */
export interface Volume {
  readonly type: string;
  /** No new store is created there. */
  readonly unsafe: boolean;
  /** `a` and `A` are the same name. */
  readonly ignoresCase: boolean;
  /** The service that syncs the folder; null: none is known. */
  readonly cloud: string | null;
}

export function describeVolume(path: string): Volume {
  const folder = existingFolder(path);
  const unsafe = unsafeFileSystem(folder);
  const type = process.platform === "darwin" ? mountType(readMounts(), folder) : magicName(statfsSync(folder).type);
  return {
    type: unsafe ?? type ?? "unknown file system",
    unsafe: unsafe !== null,
    ignoresCase: ignoresCase(folder),
    cloud: cloudFolder(folder),
  };
}

/** Asks for the same folder in other letters, so nothing is written. A name without letters says nothing about it. */
function ignoresCase(folder: string): boolean {
  const name = basename(folder);
  const other = name === name.toUpperCase() ? name.toLowerCase() : name.toUpperCase();
  if (other === name) return dirname(folder) === folder ? false : ignoresCase(dirname(folder));
  const [one, two] = [folder, join(dirname(folder), other)].map((each) => statSync(each, { throwIfNoEntry: false }));
  return one !== undefined && one.dev === two?.dev && one.ino === two.ino;
}

/**
 * The cloud service that syncs a path, by the folders that these services create. It puts back files that were renamed or
 * removed, and copies a database while it is written. "Desktop" and "Documents" may be in iCloud without a sign in the path.
 */
export function cloudFolder(path: string): string | null {
  const parts = path.split("/");
  const found = parts.findIndex((part, at) => part === "CloudStorage" && parts[at - 1] === "Library");
  if (found !== -1) return parts[found + 1]?.split("-", 1)[0] || null;
  if (parts.some((part, at) => part === "Mobile Documents" && parts[at - 1] === "Library")) return "iCloud Drive";
  for (const [name, pattern] of CLOUDS) if (parts.some((part) => pattern.test(part))) return name;
  return null;
}

const CLOUDS: readonly (readonly [string, RegExp])[] = [
  ["iCloud Drive", /^iCloudDrive$/],
  ["Dropbox", /^Dropbox(?: \(.+\))?$/],
  ["OneDrive", /^OneDrive(?: - .+)?$/],
  ["Google Drive", /^(?:Google Drive|GoogleDrive)$/],
];

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

/** null for a type without a name here. */
function magicName(type: number): string | null {
  return NAMES.get(type >>> 0) ?? null;
}

const NAMES: ReadonlyMap<number, string> = new Map([
  [0xef53, "ext4"],
  [0x9123683e, "btrfs"],
  [0x58465342, "xfs"],
  [0x2fc12fc1, "zfs"],
  [0xf2f52010, "f2fs"],
  [0x01021994, "tmpfs"],
  [0x794c7630, "overlay"],
  [0x65735546, "fuse"],
  [0x01021997, "9p"],
]);
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
  const type = mountType(mounts, folder);
  return type !== null && UNSAFE_MOUNTS.has(type) ? type : null;
}

function mountType(mounts: string, folder: string): string | null {
  const found = mounts
    .split("\n")
    .map((line) => /^.* on (\/.*) \(([^,)]+)[^()]*\)$/.exec(line))
    .filter((match) => match !== null)
    .filter(([, point = ""]) => point === "/" || folder === point || folder.startsWith(`${point}/`))
    .toSorted(([, one = ""], [, other = ""]) => other.length - one.length)[0];
  return found?.[2] ?? null;
}

const UNSAFE_MOUNTS: ReadonlySet<string> = new Set(["nfs", "smbfs", "afpfs", "webdav", "exfat", "msdos"]);

function readMounts(): string {
  try {
    return execFileSync("/sbin/mount", { encoding: "utf8", timeout: 10_000, stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return "";
  }
}
