import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/**
 * The program itself, where PATH knows the loader that npm installs: the loader is a second process, and when it is killed Copilot CLI goes on
 * alone. What is no such loader is taken as it is.
 */
export function nativeBinary(found: string): string {
  try {
    const script = realpathSync(found);
    return script.endsWith(".js") ? (besideLoader(script) ?? found) : found;
  } catch {
    return found;
  }
}

/** In the order in which the loader looks where the C library is the usual one, and then for the other. */
function besideLoader(script: string): string | null {
  const kinds = process.platform === "linux" ? ["linux", "linuxmusl"] : [process.platform];
  for (const kind of kinds) {
    try {
      const main = createRequire(script).resolve(`@github/copilot-${kind}-${process.arch}`);
      const binary = join(dirname(main), process.platform === "win32" ? "copilot.exe" : "copilot");
      if (existsSync(binary)) return binary;
    } catch {
      continue;
    }
  }
  return null;
}
