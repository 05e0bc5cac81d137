import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Tools that the suites use, and the Debian package of each. */
const PACKAGES = {
  perl: "perl-base",
  git: "git",
  mount: "mount",
  "mkfs.ext4": "e2fsprogs",
  "mkfs.xfs": "xfsprogs",
} as const;

export type Tool = keyof typeof PACKAGES;

export type ToolState =
  | { readonly kind: "ready"; readonly path: string }
  | { readonly kind: "missing"; readonly why: string };

/**
 * Finds a tool; as root on a Debian it is installed when missing (not with HOLDFAST_INSTALL=0). "missing" carries the reason for
 * which a case is skipped, aloud.
 */
export async function ensureTool(tool: Tool): Promise<ToolState> {
  const found = findTool(tool);
  if (found !== undefined) return { kind: "ready", path: found };
  const refusal = whyNotInstall();
  if (refusal !== undefined) return { kind: "missing", why: `${tool} is not here and ${refusal}` };
  const failure = await install(PACKAGES[tool]);
  const installed = findTool(tool);
  if (installed !== undefined) return { kind: "ready", path: installed };
  return {
    kind: "missing",
    why: `${tool} is not here and apt-get could not install ${PACKAGES[tool]}: ${failure ?? "no error"}`,
  };
}

function findTool(tool: Tool): string | undefined {
  // Tools of root are not on every PATH.
  const folders = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
  return folders.map((folder) => join(folder, tool)).find((path) => existsSync(path));
}

function whyNotInstall(): string | undefined {
  if (process.env["HOLDFAST_INSTALL"] === "0") return "HOLDFAST_INSTALL=0 forbids to install it";
  if (process.getuid?.() !== 0) return "only root may install it";
  if (!existsSync("/usr/bin/apt-get")) return "there is no apt-get to install it";
  return undefined;
}

async function install(name: string): Promise<string | undefined> {
  const apt = async (...args: readonly string[]): Promise<void> => {
    // Suites run side by side: wait for each other's lock instead of failing.
    const options = [
      "-o",
      "DPkg::Lock::Timeout=120",
      "-o",
      "Acquire::Retries=1",
      "-qq",
      "-y",
      "--no-install-recommends",
    ];
    await run("apt-get", [...options, ...args], {
      timeout: 180_000,
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
  };
  try {
    await apt("install", name);
    return undefined;
  } catch {
    // A bare image has no package lists yet.
  }
  try {
    await apt("update");
    await apt("install", name);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim().split("\n").at(-1) : String(error);
  }
}
