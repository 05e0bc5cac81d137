import { existsSync, readdirSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/**
 * The program itself, where PATH knows the wrapper that npm installs: the wrapper may be a second process, and when it is killed Codex goes on
 * alone. What is no such wrapper is taken as it is.
 */
export function nativeBinary(found: string): string {
  try {
    const script = realpathSync(found);
    return script.endsWith(".js") ? (inPackage(script) ?? found) : found;
  } catch {
    return found;
  }
}

function inPackage(script: string): string | null {
  for (const vendor of [vendorOfPlatform(script), join(dirname(script), "../vendor")]) {
    if (vendor === null || !existsSync(vendor)) continue;
    for (const target of readdirSync(vendor)) {
      const binary = join(vendor, target, "bin", process.platform === "win32" ? "codex.exe" : "codex");
      if (existsSync(binary)) return binary;
    }
  }
  return null;
}

function vendorOfPlatform(script: string): string | null {
  const name = `@openai/codex-${process.platform}-${process.arch}/package.json`;
  try {
    return join(dirname(createRequire(script).resolve(name)), "vendor");
  } catch {
    return null;
  }
}
