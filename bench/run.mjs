// All benchmarks, one after the other, each an own process. `npm run bench`; single ones: node bench/store.ts
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

for (const name of ["cli", "store", "workspace", "graph", "formats", "formats-yaml"]) {
  console.log(`\n── ${name}`);
  const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  const { status } = spawnSync(process.execPath, [script], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
