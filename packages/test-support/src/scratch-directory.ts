import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A new directory for one test, removed when `later` runs what it is given. */
export function scratchDirectory(later: (remove: () => void) => void): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  later(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
