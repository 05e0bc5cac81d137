// Installs the programs that slow tests use and that a bare Debian lacks: as root, with apt. Elsewhere, and where one cannot be had, it says
// so, and the tests that need it are skipped with that reason. `npm test` never runs this.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Program → Debian package. */
const TOOLS = {
  git: "git",
  perl: "perl-base",
  mount: "mount",
  "mkfs.ext4": "e2fsprogs",
  "mkfs.xfs": "xfsprogs",
  gh: "gh",
  glab: "glab",
  // A team of machines, one with a wrong clock.
  ip: "iproute2",
  faketime: "faketime",
  // A module of Python: the model of a disk without case.
  "../lib/python3/dist-packages/fusepy.py": "python3-fusepy",
};

const missing = Object.entries(TOOLS).filter(([program]) => !isThere(program));
if (missing.length > 0 && process.getuid?.() === 0 && existsSync("/usr/bin/apt-get")) {
  console.log(`installing ${missing.map(([, name]) => name).join(", ")} for the tests that use them`);
  apt("update");
  // One by one: a Debian release that lacks one of them may have the others.
  for (const [, name] of missing) apt("install", "-y", "--no-install-recommends", name);
}
for (const [program, name] of missing)
  if (!isThere(program)) console.log(`${name} is missing and cannot be installed here: its tests are skipped`);

function apt(...args) {
  spawnSync("apt-get", ["-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=1", ...args], {
    stdio: "ignore",
    timeout: 300_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function isThere(program) {
  // Tools of root are not on every PATH.
  const folders = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
  return folders.some((folder) => existsSync(join(folder, program)));
}
