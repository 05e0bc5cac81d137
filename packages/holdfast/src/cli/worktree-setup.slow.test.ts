/** The set-up of a run's worktree through the real command: npm, a kill in the middle, changed lockfiles, and failures. */
import { appendFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";

const suite = workSuite();
const NPM = "npm ci --offline --no-audit --no-fund";
const ID = "issue-1";

test("npm dependencies are installed before the gate, after kills of run and restore, and again when the lockfile changes", async () => {
  const place = await suite.begin();
  const at = beside(place);
  await commitPackage(place, ["greeter"]);
  const first = `echo x >> ${at("count")}; echo half >> README.md; test -e ${at("go")} || { touch ${at("started")}; sleep 600; }`;
  await configure(place, { setup: [first, NPM], copy: [".env"], gate: "npm test && cat .env" });
  await writeFile(join(place.clone, ".env"), "API_TOKEN=a-secret-of-the-user # of staging\n");
  // The agent takes the copied file out of .gitignore.
  const unignored = { do: "write", path: ".gitignore", text: "holdfast.config.yaml\n" } as const;
  const edits = [...GOOD.edits, ...packageFiles(["greeter", "waver"]), unignored];
  const agent = await place.agent([{ ...GOOD, edits }]);

  const worktree = join(dirname(place.clone), "shop-worktrees", ID);
  for (const args of [
    ["run", "1", "--agent", agent, "--no-review"],
    ["restore", `${ID}@latest`, "--yes"],
  ]) {
    const killed = place.start(...args);
    await expect.poll(() => existsSync(at("started")), { timeout: 60_000 }).toBe(true);
    killed.child.kill("SIGKILL");
    await killed.ended;
    await rm(at("started"));
    // The restore has something to do.
    await appendFile(join(worktree, "README.md"), "an edit\n");
  }
  writeFileSync(at("go"), "");

  const done = await place.run("resume", ID);
  expect([done.status, done.stderr], done.stdout).toEqual([0, ""]);
  // The killed set-up is undone before it runs again. The edit after the kill is in the checkpoint that the message names.
  expect(done.stdout).toMatch(/Put the files back to issue-1@\d+; what set-up left half-done is saved as issue-1@\d+/);
  const [saved] = /(?<=is saved as )issue-1@\d+/.exec(done.stdout) ?? [];
  const { checkpoint: half } = await place.json("show", saved ?? "");
  expect(await place.git("show", `${half.planes.files.tree}:README.md`)).toMatch(/half\nan edit$/);
  expect(await place.git("show", "refs/remotes/origin/holdfast/issue-1:README.md")).toBe("# Shop\nhalf\nhalf");
  expect(done.stdout).toContain(`Set up the worktree: ${first} && ${NPM}`);
  expect(done.stdout).toContain("Set up the worktree again (package-lock.json changed):");
  // Twice killed, once resumed, once for the new lockfile.
  const count = async () => (await readFile(at("count"), "utf8")).split("\n").length - 1;
  expect(await count()).toBe(4);
  expect(existsSync(join(worktree, "node_modules/waver/index.js"))).toBe(true);
  const tips = (await place.git("for-each-ref", "--format=%(refname)", "refs/holdfast", "refs/remotes")).split("\n");
  const trees = tips.filter((ref) => ref.includes("holdfast/issue-1") && !ref.endsWith("-index"));
  expect(trees).toContain("refs/remotes/origin/holdfast/issue-1");
  for (const tree of trees) {
    const paths = (await place.git("ls-tree", "-r", "--name-only", tree)).split("\n");
    expect(
      paths.filter((path) => path === ".env" || path.startsWith("node_modules/")),
      tree,
    ).toEqual([]);
  }
  expect(await readFile(join(worktree, ".gitignore"), "utf8")).toBe(unignored.text);
  const events = await place.run("--json", "events", ID, "--limit", "all");
  expect(events.stdout).toContain("API_TOKEN=***");
  expect(events.stdout).not.toContain("a-secret-of-the-user");
  expect((await place.run("output", ID, "--step", "set-up")).stdout).toContain(`$ ${NPM}`);

  const { checkpoint } = await place.json("show", `${ID}@latest`);
  const { lockfiles, setup, node, git } = checkpoint.planes.toolchain;
  expect([Object.keys(lockfiles), setup, node, git]).toEqual([
    ["package-lock.json"],
    expect.stringMatching(/^[0-9a-f]{16}$/),
    process.versions.node,
    expect.stringMatching(/^\d+\.\d+/),
  ]);
  expect((await place.run("show", `${ID}@latest`)).stdout).toContain("  lockfile    package-lock.json ");

  const { checkpoints } = await place.json("list", ID);
  const old = checkpoints.filter(({ tree }: { tree: string | null }) => tree !== null).at(-1).id;
  const env = { HOLDFAST_TRUST: "" };
  const untrusted = await place.holdfast.run(["restore", old, "--yes"], { cwd: place.clone, env });
  expect([untrusted.status, untrusted.stdout]).toEqual([
    0,
    expect.stringContaining("The worktree was not set up: that needs your consent"),
  ]);
  expect(await count()).toBe(4);
  expect(await place.json("restore", `${ID}@latest`, "--yes")).toMatchObject({ report: null });
  await appendFile(join(worktree, "README.md"), "an edit\n");
  const restored = await place.run("restore", `${ID}@latest`, "--yes");
  expect([restored.status, restored.stdout], restored.stderr).toEqual([
    0,
    expect.stringContaining("Set up the worktree again (package-lock.json changed):"),
  ]);
  expect([await count(), existsSync(join(worktree, "node_modules/waver"))]).toEqual([5, false]);
});

test("a failing set-up and a gate that fails on the base are shown before any agent is called", async () => {
  const place = await suite.begin();
  const at = beside(place);
  const lines = Array.from({ length: 40 }, (_, line) => `line ${line + 1}`).join("\\n");
  const agent = await place.agent([GOOD]);
  const gate = "echo the tests are broken; exit 3";
  await configure(place, { setup: ["rm -rf * .git"], gate });
  const deleted = await place.run("run", "1", "--agent", agent, "--no-review");
  expect(deleted.status, deleted.stderr).toBe(4);
  expect(deleted.stdout).toContain("set-up left the branch holdfast/issue-1 or its repository; both are as they were");
  expect(deleted.stdout + deleted.stderr).toMatch(
    /Set-up of the worktree deleted README\.md, which git\s+tracks\. The files are put back/,
  );
  await configure(place, {
    setup: [`echo more >> README.md; printf '${lines}\\n'; test -e ${at("fixed")}`],
    gate,
  });

  const failed = await place.run("resume", ID);
  expect(failed.status, failed.stderr).toBe(4);
  expect(failed.stdout).toContain("            | line 40\n");
  expect(failed.stdout).not.toContain("| line 20\n");
  expect(failed.stdout + failed.stderr).toMatch(/Set-up of the worktree failed with exit 1/);
  expect(failed.stdout).toContain("Set-up changed README.md, which git tracks");
  expect((await place.run("output", ID, "--step", "set-up")).stdout).toContain("line 1\nline 2\n");

  writeFileSync(at("fixed"), "");
  const asked = await place.run("resume", ID);
  expect([asked.status, asked.stdout]).toEqual([4, expect.stringContaining("            | the tests are broken\n")]);
  expect(asked.stdout).toContain("Set-up changed README.md, which git tracks: commits of this run would contain that.");
  expect(asked.stdout + asked.stderr).toContain("The gate fails on main, before any change.");
  // Asked again: the result is recorded, and neither set-up nor gate runs a second time.
  const again = await place.run("resume", ID);
  expect([again.status, again.stdout]).toEqual([4, expect.not.stringContaining("| the tests are broken")]);
  const { calls } = await place.json("output", ID);
  expect(new Set(calls.map(({ step }: { step: string }) => step))).toEqual(new Set(["set-up"]));

  expect(await place.run("approve", ID, "stop")).toMatchObject({ status: 0 });
  expect((await place.run("resume", ID)).stdout).toContain("Stopped by you: The gate fails on main");
});

test("submodules are checked out by the set-up, its link to dependencies is not pushed, and a hostile .gitmodules starts nothing", async () => {
  const place = await suite.begin();
  const at = beside(place);
  const marker = at("hostile");
  const lib = at("lib");
  await place.git("init", "-q", "-b", "main", lib);
  await place.git(
    "-C",
    lib,
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@example.com",
    "commit",
    "-qm",
    "lib",
    "--allow-empty",
  );
  await place.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "lib");
  await place.git("commit", "-qm", "a submodule");
  await place.git("push", "-q");
  const update = "git -c protocol.file.allow=always submodule update --init --recursive";
  const link = `ln -s ${lib} node_modules`;
  await configure(place, { setup: [update, link], gate: "git -C lib log -1 --format=%s" });
  const agent = await place.agent([GOOD]);
  const done = await place.run("run", "1", "--agent", agent, "--no-review");
  expect([done.status, done.stdout], done.stderr).toEqual([
    0,
    expect.stringContaining(`Set up the worktree: ${update} && ${link}`),
  ]);
  expect(done.stdout).not.toContain("Set-up made");
  const pushed = await place.git("ls-tree", "--name-only", "refs/remotes/origin/holdfast/issue-1");
  expect(pushed.split("\n")).toEqual(expect.not.arrayContaining(["node_modules"]));

  const hostile = [
    [`ext::sh -c "touch ${marker}"`, "checkout"],
    [`--upload-pack=touch ${marker}`, "checkout"],
    [lib, `!touch ${marker}`],
  ] as const;
  for (const [url, how] of sampleBySeed(hostile, 1)) {
    const section = { path: "lib", url, update: how };
    const lines = Object.entries(section).map(([key, value]) => `\t${key} = ${JSON.stringify(value)}\n`);
    await writeFile(join(place.clone, ".gitmodules"), `[submodule "lib"]\n${lines.join("")}`);
    await place.git("config", "--remove-section", "submodule.lib").catch(() => "");
    await place.git("commit", "-qam", "hostile");
    await place.git("push", "-q");
    await configure(place, { setup: ["git submodule update --init --recursive"], gate: "true" });
    const refused = await place.run("run", "--task", "Another task", "--agent", agent, "--no-review");
    expect(refused.status, refused.stdout + refused.stderr).toBe(4);
    expect(refused.stdout).toContain("Set-up of the worktree failed");
    expect(existsSync(marker)).toBe(false);
  }
});

/** Files outside of the clone, in its directory. */
function beside(place: WorkPlace): (name: string) => string {
  return (name) => join(dirname(place.clone), name);
}

async function configure(
  place: WorkPlace,
  {
    setup,
    gate,
    copy = [],
  }: { readonly setup: readonly string[]; readonly gate: string; readonly copy?: readonly string[] },
): Promise<void> {
  const text = JSON.stringify({ workspace: { setup, copy }, impl: { gate } });
  await writeFile(join(place.clone, "holdfast.config.yaml"), text);
}

/** A package whose test needs its dependencies, which are folders of the same repository. */
async function commitPackage(place: WorkPlace, dependencies: readonly string[]): Promise<void> {
  for (const { path, text } of packageFiles(dependencies)) {
    await mkdir(dirname(join(place.clone, path)), { recursive: true });
    await writeFile(join(place.clone, path), text);
  }
  await writeFile(join(place.clone, ".gitignore"), "holdfast.config.yaml\n.env\n");
  await place.git("add", ".");
  await place.git("commit", "-qm", "a package");
  await place.git("push", "-q");
}

function packageFiles(names: readonly string[]): readonly { do: "write"; path: string; text: string }[] {
  const root = {
    name: "shop",
    version: "1.0.0",
    scripts: { test: `node -e "${names.map((name) => `require('${name}')`).join(";")}"` },
    dependencies: Object.fromEntries(names.map((name) => [name, `file:${name}`])),
  };
  const lock = {
    name: "shop",
    version: "1.0.0",
    lockfileVersion: 3,
    requires: true,
    packages: {
      "": root,
      ...Object.fromEntries(names.map((name) => [name, { version: "1.0.0" }])),
      ...Object.fromEntries(names.map((name) => [`node_modules/${name}`, { resolved: name, link: true }])),
    },
  };
  const write = (path: string, text: string) => ({ do: "write" as const, path, text });
  return [
    write("package.json", JSON.stringify(root)),
    write("package-lock.json", JSON.stringify(lock)),
    ...names.flatMap((name) => [
      write(`${name}/package.json`, JSON.stringify({ name, version: "1.0.0" })),
      write(`${name}/index.js`, ""),
    ]),
  ];
}
