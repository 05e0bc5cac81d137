import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findTool } from "./find-tool.ts";
import { scratchFolder } from "./scratch.ts";

/** Why no file system can be mounted here; undefined when it can. */
export function whyNoMount(): string | undefined {
  if (process.platform !== "linux") return "mounting is done on Linux only";
  if (process.getuid?.() !== 0) return "mounting needs root";
  const folder = scratchFolder("probe");
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], { stdio: "pipe" });
    execFileSync("umount", [folder], { stdio: "pipe" });
    return undefined;
  } catch (error) {
    return `mount is refused here: ${error instanceof Error ? error.message.trim().split("\n").at(-1) : String(error)}`;
  }
}

export interface Mounted {
  readonly path: string;
  remount(options: string): void;
  unmount(): void;
}

/** A file system of this size in memory: full when it is full, with real short writes. */
export function mountSmall(size: string): Mounted {
  const path = scratchFolder("small");
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path], { stdio: "pipe" });
  return mounted(path);
}

export type DiskKind = "ext4" | "xfs";

/** A real file system on a loop device whose power can be cut. */
export interface LoopDisk {
  readonly path: string;
  /** Through the journal again, as after a reboot. */
  reboot(): Promise<void>;
  unmount(): Promise<void>;
}

const MEGABYTES = { ext4: 64, xfs: 320 } as const satisfies Record<DiskKind, number>;
// A long commit interval: nothing becomes durable just because time went by.
const OPTIONS = { ext4: "loop,commit=600", xfs: "loop" } as const satisfies Record<DiskKind, string>;

/** Mounted at `<folder>/mount`. A string is the reason why there is none. */
export async function loopDisk(kind: DiskKind, folder: string): Promise<LoopDisk | string> {
  const refusal = await whyNoLoopDisk(kind);
  if (refusal !== undefined) return refusal;
  const [image, path] = [join(folder, "image"), join(folder, "mount")];
  writeFileSync(image, "");
  truncateSync(image, MEGABYTES[kind] << 20);
  mkdirSync(path, { recursive: true });
  execFileSync(toolPath(kind), [kind === "ext4" ? "-qF" : "-qf", image], { stdio: "pipe" });
  const mount = (): void => void execFileSync("mount", ["-o", OPTIONS[kind], image, path], { stdio: "pipe" });
  mount();
  const base = mounted(path);
  return {
    path,
    async reboot() {
      base.unmount();
      await letGo(image);
      mount();
    },
    async unmount() {
      base.unmount();
      await letGo(image);
      rmSync(image);
    },
  };
}

/**
 * A process that made itself a mount namespace meanwhile has a copy of our mount, and keeps the file system as it is, shut down,
 * until it ends. Mounted again before that, we would see no reboot at all.
 */
async function letGo(image: string): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (!isLooped(image)) return;
    await new Promise((resolve) => setTimeout(resolve, 20 + tries));
  }
  throw new Error(`a process holds a mount of ${image} and does not release it`);
}

function isLooped(image: string): boolean {
  return readdirSync("/sys/block")
    .map((name) => `/sys/block/${name}/loop/backing_file`)
    .some((file) => existsSync(file) && readQuietly(file).startsWith(image));
}

/** The file may disappear between listing and reading. */
function readQuietly(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

const refusals = new Map<DiskKind, string | undefined>();

export async function whyNoLoopDisk(kind: DiskKind): Promise<string | undefined> {
  if (!refusals.has(kind)) refusals.set(kind, await tryLoopDisk(kind));
  return refusals.get(kind);
}

async function tryLoopDisk(kind: DiskKind): Promise<string | undefined> {
  const refusal = whyNoMount();
  if (refusal !== undefined) return refusal;
  const tool = findTool(`mkfs.${kind}`);
  if (tool.kind === "missing") return tool.why;
  refusals.set(kind, undefined);
  try {
    const disk = await loopDisk(kind, scratchFolder("probe"));
    if (typeof disk !== "string") await disk.unmount();
    return undefined;
  } catch (error) {
    return `no loop-mounted ${kind} here: ${error instanceof Error ? error.message.trim().split("\n").at(-1) : String(error)}`;
  }
}

function toolPath(kind: DiskKind): string {
  const tool = findTool(`mkfs.${kind}`);
  if (tool.kind === "missing") throw new Error(tool.why);
  return tool.path;
}

function mounted(path: string): Mounted {
  return {
    path,
    remount: (options) => void execFileSync("mount", ["-o", `remount,${options}`, path], { stdio: "pipe" }),
    unmount: () => void execFileSync("umount", [path], { stdio: "pipe" }),
  };
}
