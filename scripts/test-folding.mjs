// npm run test:folding: suites of restores and leases on a disk that ignores case and Unicode form, as macOS has it. Further arguments go to vitest
// instead of these suites. Without FUSE it says why, and counts as skipped.
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { mountFoldingDisk } from "../packages/test-support/src/folding-disk.ts";

const SUITES = [
  "packages/git/src/place-files.test.ts",
  "packages/git/src/plan-restore.test.ts",
  "packages/git/src/apply-restore.test.ts",
  "packages/core/src/store-sql/lease-locks.test.ts",
  // Each of thousands of look-ups takes its turn in the model.
  "-t",
  "^(?!.*many files at once)",
];

const disk = mountFoldingDisk();
if (typeof disk === "string") {
  console.log(`no test on a disk without case: ${disk}`);
  console.log("0 passed, 0 failed, 1 skipped");
  process.exit(0);
}
const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const more = process.argv.slice(2);
const test = spawnSync(process.execPath, [path("test.mjs"), "folding", ...(more.length > 0 ? more : SUITES)], {
  stdio: "inherit",
  env: {
    ...process.env,
    TMPDIR: disk.path,
    // Neither the build nor compiled code belongs on this disk.
    HOLDFAST_TEST_DIST: process.env["HOLDFAST_TEST_DIST"] ?? path("../packages/holdfast/dist"),
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? join(tmpdir(), "holdfast-compiled"),
  },
});
disk.unmount();
process.exit(test.status ?? 1);
