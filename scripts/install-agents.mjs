// Installs the real agents that the suites drive (test-agents/), unless this very lockfile was installed before. Where they
// cannot be had it says why, and the suites that need them skip aloud.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const folder = join(new URL("..", import.meta.url).pathname, "test-agents");
const stamp = join(folder, "node_modules/.holdfast-installed");
const problem = join(folder, "install-problem.log");
const wanted = createHash("sha256")
  .update(readFileSync(join(folder, "package-lock.json")))
  .digest("hex");
const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

if (process.env["HOLDFAST_NO_AGENTS"] === "1") {
  giveUp("HOLDFAST_NO_AGENTS=1 asks for none");
} else if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) {
  rmSync(problem, { force: true });
} else {
  console.log("installing the agents that the slow tests use (once, about 2 GB)");
  // Not `npm ci`: it refuses a lockfile that lacks the builds for platforms that a registry does not have.
  // On our own Node: an optional package that wants a newer one than npm runs on is left out silently.
  const PATH = `${join(folder, "../node_modules/.bin")}${delimiter}${process.env["PATH"]}`;
  const run = spawnSync("npm", ["install", "--no-save"], {
    cwd: folder,
    env: { ...process.env, PATH },
    encoding: "utf8",
    timeout: 900_000,
  });
  const lacking = Object.keys(manifest.optionalDependencies).filter(
    (name) => !existsSync(join(folder, "node_modules", name)),
  );
  if (run.status !== 0) {
    giveUp(`npm install in test-agents failed: ${(run.stderr || run.error?.message || "").trim().slice(-500)}`);
  } else if (lacking.length > 0) {
    giveUp(`npm could not install ${lacking.join(", ")}`);
  } else {
    writeFileSync(stamp, wanted);
    rmSync(problem, { force: true });
  }
}

function giveUp(reason) {
  writeFileSync(problem, reason);
  console.log(`real agents are missing: ${reason}`);
}
