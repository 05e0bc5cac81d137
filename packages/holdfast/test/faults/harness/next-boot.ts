import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const BOOT_FILE = "/proc/sys/kernel/random/boot_id";
const EARLIER = "00000000-0000-4000-8000-000000000000";

/**
 * A power cut ends a boot, but this machine's boot continues. So files that contain this boot's id get an earlier one.
 * Databases are not changed, because their checksums would fail: there the owner counts as dead by its process.
 */
export function startNextBoot(folder: string): void {
  if (!existsSync(BOOT_FILE)) return;
  replaceBelow(folder, readFileSync(BOOT_FILE, "latin1").trim());
}

function replaceBelow(folder: string, boot: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) replaceBelow(path, boot);
    else if (entry.isFile() && !entry.name.includes(".db")) {
      const bytes = readFileSync(path);
      if (bytes.includes(boot)) writeFileSync(path, bytes.toString("latin1").replaceAll(boot, EARLIER), "latin1");
    }
  }
}
