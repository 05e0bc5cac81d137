// Runs the suites of leases, signals, stopping, resuming and endurance a second time, on a Linux that looks like a Mac:
// no /proc, Apple's `ps`, and process.platform "darwin" (packages/test-support/mac-model). Its last line is
// `N passed, N failed[, N skipped]`. Further arguments go to vitest and replace the list of files.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const FILES = [
  "packages/platform/src/folder-processes.test.ts",
  "packages/platform/src/identity.test.ts",
  "packages/platform/src/marked-process.test.ts",
  "packages/platform/src/process-lock.test.ts",
  "packages/platform/src/process-records.test.ts",
  "packages/platform/src/process-tree.test.ts",
  "packages/platform/src/ps.test.ts",
  "packages/core/src/store-sql/lease-locks.test.ts",
  "packages/core/src/store-sql/many-processes.slow.test.ts",
  "packages/holdfast/src/cli/run-holder.slow.test.ts",
  "packages/holdfast/src/cli/commands/checkpoint.slow.test.ts",
  "packages/holdfast/src/cli/commands/resume-orphans.slow.test.ts",
  "packages/holdfast/test/endurance/every-point.slow.test.ts",
  "packages/holdfast/test/endurance/interrupted.slow.test.ts",
  "packages/holdfast/test/endurance/two-at-once.slow.test.ts",
  "packages/holdfast/test/restarts.slow.test.ts",
];

const may = spawnSync("unshare", ["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"]);
if (process.platform !== "linux" || may.status !== 0) {
  console.log("The modelled Mac is skipped: it needs Linux and the right to mount in a namespace of its own (root).");
  console.log("0 passed, 0 failed, 1 skipped");
  process.exit(0);
}

const model = mkdtempSync(join(tmpdir(), "mac-model-"));
try {
  const { status } = spawnSync(
    "sh",
    [
      join(root, "packages/test-support/mac-model/enter"),
      model,
      process.execPath,
      "node",
      join(root, "scripts/test.mjs"),
      "mac",
      ...(process.argv.length > 2 ? process.argv.slice(2) : FILES),
    ],
    {
      cwd: root,
      stdio: "inherit",
      // Scenes bundle their workers; esbuild would look for its program for macOS.
      env: {
        ...process.env,
        ESBUILD_BINARY_PATH: createRequire(import.meta.url).resolve(`@esbuild/linux-${process.arch}/bin/esbuild`),
      },
    },
  );
  process.exitCode = status ?? 1;
} finally {
  rmSync(model, { recursive: true, force: true });
}
