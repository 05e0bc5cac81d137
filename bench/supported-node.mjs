// Import it first. Continues under the Node that `npm ci` has installed, where the current one is too old: it cannot parse the published API's
// modules, so a script that imports it loads those with `await import`, and has no syntax of its own that only newer ones know.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const installed = join(import.meta.dirname, "../node_modules/.bin/node");
if (Number(process.versions.node.split(".")[0]) < 24 && existsSync(installed)) {
  const { status } = spawnSync(installed, process.argv.slice(1), { stdio: "inherit" });
  process.exit(status ?? 1);
}
