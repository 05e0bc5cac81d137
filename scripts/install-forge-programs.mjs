// Installs gh and glab for the suites that drive them, where that can be done: as root, by apt. Once and before all suites, which would wait
// for each other. Where they cannot be had it says so, and those suites skip aloud.
import { spawnSync } from "node:child_process";

const missing = ["gh", "glab"].filter((name) => !isThere(name));
if (missing.length > 0 && process.getuid?.() === 0 && isThere("apt-get")) {
  console.log(`installing ${missing.join(" and ")} for the suites that drive them`);
  apt("update");
  // One by one: a release that lacks the one may have the other.
  for (const name of missing) apt("install", "-y", name);
}
for (const name of missing)
  if (!isThere(name)) console.log(`${name} is missing and cannot be installed here: its suites are skipped`);

function apt(...args) {
  spawnSync("apt-get", ["-qq", "-o", "DPkg::Lock::Timeout=120", ...args], {
    stdio: "ignore",
    timeout: 180_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function isThere(name) {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).error === undefined;
}
