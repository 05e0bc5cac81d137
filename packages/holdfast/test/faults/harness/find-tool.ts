import { existsSync } from "node:fs";
import { join } from "node:path";

/** Programs that the suites use. `npm run test:slow` installs them where it can. */
export type Tool = "perl" | "git" | "mount" | "mkfs.ext4" | "mkfs.xfs";

export type ToolState =
  | { readonly kind: "ready"; readonly path: string }
  | { readonly kind: "missing"; readonly why: string };

/** "missing" has the reason with which a test is skipped. */
export function findTool(tool: Tool): ToolState {
  // Tools of root are not on every PATH.
  const folders = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
  const path = folders.map((folder) => join(folder, tool)).find((file) => existsSync(file));
  if (path !== undefined) return { kind: "ready", path };
  return { kind: "missing", why: `${tool} is not installed; as root on a Debian, npm run test:slow installs it` };
}
