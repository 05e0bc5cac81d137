// Start-up: `holdfast --version` against `node -e 0`, same node binary, interleaved in one run.
// Peer: an empty node program, which is the floor for anything written in JavaScript.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { printRatio, quantile } from "./report.ts";

const bin = fileURLToPath(new URL("../packages/holdfast/bin/holdfast.cjs", import.meta.url));
const rounds = Number(process.argv[2] ?? 40);
const empty: number[] = [];
const version: number[] = [];
const help: number[] = [];
for (let round = 0; round < rounds; round++) {
  empty.push(time(["-e", "0"]));
  version.push(time([bin, "--version"]));
  help.push(time([bin, "--help"]));
}
printRatio({
  what: "holdfast --version / node -e 0",
  ours: quantile(version, 0.5),
  peer: quantile(empty, 0.5),
  unit: "ms",
  atMost: 2,
});
printRatio({ what: "holdfast --help / node -e 0", ours: quantile(help, 0.5), peer: quantile(empty, 0.5), unit: "ms" });

function time(args: readonly string[]): number {
  const start = process.hrtime.bigint();
  const result = spawnSync(process.execPath, args, { stdio: "ignore" });
  if (result.status !== 0) throw new Error(`${args.join(" ")} ended with ${result.status}`);
  return Number(process.hrtime.bigint() - start) / 1e6;
}
