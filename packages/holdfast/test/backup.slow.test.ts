import { execFileSync } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, postgresProgram, sharedPostgres } from "@holdfast/test-support/postgres-server";

/* Backup and restore, with the commands of docs/operations.md. */

const suite = workSuite();

/** Each stage writes a file and asks a question, so that a run can be backed up between two answers. */
const FLOW = `import { defineWorkflow } from "holdfast";
import { writeFileSync } from "node:fs";
const stage = (name) => async (context) => {
  await context.step(name, () => {
    writeFileSync(context.workspace.root + "/" + name + ".txt", name + "\\n");
    return null;
  }, { changesFiles: true });
  await context.decide({ name: "go", question: "Go on?", options: ["yes"] });
  return { event: "next", reason: name };
};
export default defineWorkflow({
  name: "asking",
  initial: "one",
  stages: { one: stage("one"), two: stage("two") },
  transitions: { one: { next: "two" }, two: { next: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});
`;

interface Machine {
  readonly clone: string;
  run(
    ...args: readonly string[]
  ): Promise<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }>;
}

async function begin(store: string | null) {
  const place = await suite.begin();
  const folder = join(place.clone, "..");
  const machine = (name: string, clone: string, url = store): Machine => ({
    clone,
    run: (...args) =>
      place.holdfast.run(args, {
        cwd: clone,
        env: {
          HOME: join(folder, `home-${name}`),
          HOLDFAST_TRUST: "1",
          ...(url === null ? {} : { HOLDFAST_STORE: url }),
        },
      }),
  });
  for (const name of ["old", "new"]) await mkdir(join(folder, `home-${name}`));
  await writeFile(join(place.clone, "flow.ts"), workflowSource(FLOW));
  await writeFile(join(place.clone, "holdfast.config.yaml"), "files: { remote: origin }\n");
  await place.git("add", ".");
  await place.git("commit", "-qm", "flow");
  await place.git("push", "-q", "origin", "main");
  return { place, folder, machine };
}

async function startAsking(machine: Machine): Promise<string> {
  const started = await machine.run("run", "--workflow", "flow.ts", "--task", "Ask");
  expect(started, started.stderr).toMatchObject({ status: 4 });
  const { runs } = JSON.parse((await machine.run("--json", "status")).stdout);
  return runs[0].run?.id ?? runs[0].id;
}

/** Answers, and executes up to the next question or the end. */
async function answer(machine: Machine, run: string, status: number): Promise<void> {
  expect((await machine.run("approve", run, "yes")).stderr).not.toContain("error");
  const resumed = await machine.run("resume", run);
  expect(resumed, resumed.stderr).toMatchObject({ status });
}

async function expectIntact(machine: Machine): Promise<void> {
  const verified = await machine.run("verify");
  expect(verified, verified.stdout + verified.stderr).toMatchObject({
    status: 0,
    stdout: expect.stringContaining("Intact") as string,
  });
}

describe("a store in PostgreSQL", () => {
  beforeEach(({ skip }) => skip(postgresMissing() !== null, postgresMissing() ?? ""));

  const libpq = (url: string): string => url.replace(/\?schema=.*$/, "");
  const schemaOf = (url: string): string => new URL(url.replace(/@[^/]*/, "@host")).searchParams.get("schema") ?? "";
  const dump = (url: string, file: string): void =>
    void execFileSync(postgresProgram("pg_dump"), ["-Fc", `--schema=${schemaOf(url)}`, "-f", file, libpq(url)]);

  test("and its files remote are restored on a new machine, and the run ends there", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const { place, folder, machine } = await begin(url);
    const old = machine("old", place.clone);
    const run = await startAsking(old);

    dump(url, join(folder, "store.dump"));
    execFileSync("git", ["clone", "-q", "--mirror", place.remote, join(folder, "backup.git")]);
    const lost = ["shop", "shop.git", "shop-worktrees", "home-old"];
    for (const name of lost)
      if (existsSync(join(folder, name))) await rename(join(folder, name), join(folder, `lost-${name}`));

    server.sql(`CREATE DATABASE ${schemaOf(url)}`);
    const fresh = url.replace("/postgres?", `/${schemaOf(url)}?`);
    execFileSync(postgresProgram("pg_restore"), ["-d", libpq(fresh), join(folder, "store.dump")]);
    execFileSync("git", ["clone", "-q", "--mirror", join(folder, "backup.git"), place.remote]);
    execFileSync("git", ["clone", "-q", place.remote, place.clone]);
    const there = machine("new", place.clone, fresh);
    expect((await there.run("store", "fetch")).status).toBe(0);
    await expectIntact(there);
    await answer(there, run, 4);
    await answer(there, run, 0);
    const worktree = join(folder, "shop-worktrees", run);
    expect(await readFile(join(worktree, "one.txt"), "utf8")).toBe("one\n");
    expect(await readFile(join(worktree, "two.txt"), "utf8")).toBe("two\n");
    await expectIntact(there);
  });

  test("that is older than the files is refused where it was used, and continues elsewhere from what it knows", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const { place, folder, machine } = await begin(url);
    const old = machine("old", place.clone);
    const run = await startAsking(old);
    dump(url, join(folder, "store.dump"));
    await answer(old, run, 4);

    server.sql(`DROP SCHEMA ${schemaOf(url)} CASCADE`);
    execFileSync(postgresProgram("pg_restore"), ["-d", libpq(url), join(folder, "store.dump")]);
    for (const command of [["status"], ["resume", run]])
      expect(await old.run(...command)).toMatchObject({
        status: 6,
        stderr: expect.stringContaining("STORE_CUT") as string,
      });
    const refused = await old.run("resume", run);
    expect(refused.stderr).toMatch(/To accept the loss and continue with what is there, remove \/.*high-water/s);

    const clone = join(folder, "shop two");
    execFileSync("git", ["clone", "-q", place.remote, clone]);
    const there = machine("new", clone);
    expect((await there.run("store", "fetch")).status).toBe(0);
    await expectIntact(there);
    await answer(there, run, 4);
    await answer(there, run, 0);
    await expectIntact(there);
  });

  test("that is newer than the files names what is missing, and continues from a checkpoint whose files are there", async () => {
    const server = await sharedPostgres();
    const url = server.url();
    const { place, folder, machine } = await begin(url);
    const old = machine("old", place.clone);
    const run = await startAsking(old);
    execFileSync("git", ["clone", "-q", "--mirror", place.remote, join(folder, "backup.git")]);
    const { checkpoints } = JSON.parse((await old.run("--json", "list", run)).stdout);
    await answer(old, run, 4);
    await rename(place.remote, `${place.remote}.lost`);
    await rename(join(folder, "backup.git"), place.remote);

    const clone = join(folder, "shop two");
    execFileSync("git", ["clone", "-q", place.remote, clone]);
    const there = machine("new", clone);
    await there.run("store", "fetch");
    expect((await there.run("approve", run, "yes")).status).toBe(0);
    const refused = await there.run("resume", run);
    expect(refused).toMatchObject({ stderr: expect.stringContaining("TREE_MISSING") as string });
    const before = await there.run("resume", `${run}@${checkpoints[0].sequence}`);
    expect(before, before.stderr).toMatchObject({ status: 4 });
  });
});

test("a store in the repository is restored from a copy of the folder, and from a copy of its runs", async () => {
  const { place, folder, machine } = await begin(null);
  const old = machine("old", place.clone);
  const run = await startAsking(old);
  const copied = await old.run("store", "copy", join(place.clone, ".git/holdfast"), join(folder, "copy"));
  expect(copied, copied.stderr).toMatchObject({ status: 0 });
  execFileSync("git", ["clone", "-q", "--mirror", place.clone, join(folder, "backup.git")]);
  cpSync(place.clone, join(folder, "backup"), { recursive: true, verbatimSymlinks: true });
  await rename(place.clone, join(folder, "lost"));
  await rename(join(folder, "shop-worktrees"), join(folder, "lost-worktrees"));
  cpSync(join(folder, "backup"), place.clone, { recursive: true, verbatimSymlinks: true });
  await expectIntact(old);
  await answer(old, run, 4);

  const there = machine("new", join(folder, "shop two"));
  execFileSync("git", ["clone", "-q", place.remote, there.clone]);
  execFileSync("git", ["fetch", "-q", join(folder, "backup.git"), "refs/holdfast/*:refs/holdfast/*"], {
    cwd: there.clone,
  });
  const back = await there.run("store", "copy", join(folder, "copy"), join(there.clone, ".git/holdfast"));
  expect(back, back.stderr).toMatchObject({ status: 0 });
  await expectIntact(there);
  await answer(there, run, 4);
  await answer(there, run, 0);
  expect(await readFile(join(folder, "shop two-worktrees", run, "one.txt"), "utf8")).toBe("one\n");
});
