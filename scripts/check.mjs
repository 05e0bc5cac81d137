// Everything but the tests: types, linter, formatter, dead code, package shape. Stops at the first that fails.
import { spawnSync } from "node:child_process";

const root = new URL("..", import.meta.url).pathname;
const steps = [
  ["types", "tsc", ["-p", "tsconfig.json"]],
  ["types of the page", "tsc", ["-p", "packages/dashboard"]],
  ["lint", "oxlint", []],
  ["format", "oxfmt", ["--check", "."]],
  ["dead code", "knip", []],
  ["build", "node", ["scripts/build.mjs", "--types"]],
  ["package", "publint", ["packages/holdfast", "--strict"]],
  ["package types", "attw", ["--pack", "packages/holdfast", "--profile", "esm-only"]],
];
// attw runs `npm pack`, whose prepack script would build again.
const env = { ...process.env, npm_config_ignore_scripts: "true" };
for (const [name, command, args] of steps) {
  const result = spawnSync("npx", ["--no-install", command, ...args], { cwd: root, encoding: "utf8", env });
  const ok = result.status === 0;
  console.log(`${ok ? "ok  " : "FAIL"} ${name}`);
  if (!ok) {
    process.stdout.write(result.stdout + result.stderr);
    process.exit(1);
  }
}
