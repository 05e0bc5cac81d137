// The main job in one go: a worker is killed in the middle of its work, goes on where it stopped, and its history is
// looked at, rewound, forked and verified. Everything happens in a temporary repository that is removed at the end.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
const repo = join(folder, "shop");
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

say("A small repository");
git("init", "-q", "-b", "main", repo);
writeFileSync(join(repo, "README.md"), "# Shop\n");
git("-C", repo, "add", ".");
git("-C", repo, "-c", "user.name=demo", "-c", "user.email=demo@localhost", "commit", "-qm", "First");

say("A worker takes five steps, and is killed (kill -9) in the middle of the third");
worker("3");
say("What was saved is there, whole");
holdfast("list", "demo");
say("Started again, it goes on where it stopped");
worker();
say("What changed since step 2?");
holdfast("diff", "demo@2", "demo@5", "--stat");
say("Back to step 2: first a look, then for real");
holdfast("restore", "demo@2", "--dry-run");
holdfast("restore", "demo@2", "--yes");
show();
say("A restore is a checkpoint too, so it can be undone");
holdfast("restore", "demo@6", "--yes");
show();
say("Another way from step 2 on, in its own worktree");
holdfast("fork", "demo@2", "--as", "other-way");
say("Everything that was promised is recomputed");
holdfast("verify");
say('Done. In your own repository: npx holdfast checkpoint --name "before the big refactor"');

function say(text) {
  console.log(`\n\u2500\u2500 ${text}`);
}
function show() {
  console.log(
    `$ ls\n${readdirSync(repo)
      .filter((name) => name !== ".git")
      .join("  ")}`,
  );
}
function worker(dieAt) {
  const args = dieAt === undefined ? ["demo"] : ["demo", dieAt];
  console.log(`$ node worker.mjs ${args.join(" ")}`);
  const result = spawnSync(process.execPath, [join(root, "examples/worker.mjs"), ...args], {
    cwd: repo,
    stdio: "inherit",
  });
  if (dieAt !== undefined && result.signal === "SIGKILL") console.log("killed");
  else if (result.status !== 0) fail(`worker ended with ${result.status ?? result.signal}`);
}
function holdfast(...args) {
  console.log(`$ holdfast ${args.map((arg) => (/[\s"]/.test(arg) ? JSON.stringify(arg) : arg)).join(" ")}`);
  const result = spawnSync(process.execPath, [join(root, "packages/holdfast/bin/holdfast.cjs"), ...args], {
    cwd: repo,
    stdio: "inherit",
  });
  if (result.status !== 0) fail(`holdfast ${args[0]} ended with ${result.status}`);
}
function git(...args) {
  const result = spawnSync("git", args, { stdio: "inherit" });
  if (result.status !== 0) fail(`git ${args[0]} ended with ${result.status}`);
}
function fail(what) {
  console.error(`demo: ${what}`);
  process.exit(1);
}
