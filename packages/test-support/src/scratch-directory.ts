// A temporary directory for one test.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a new directory for one test. `later` gets the function that removes it. */
export function scratchDirectory(later: (remove: () => void) => void): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  later(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
