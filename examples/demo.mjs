// `npm run demo`: what `holdfast demo` does, from this checkout. Flags are passed to it: npm run demo -- --seed 7
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const entry = fileURLToPath(new URL("../packages/holdfast/bin/holdfast.cjs", import.meta.url));
const { status, error } = spawnSync(process.execPath, [entry, "demo", ...process.argv.slice(2)], { stdio: "inherit" });
if (error !== undefined) console.error(error.message);
process.exit(status ?? 1);
