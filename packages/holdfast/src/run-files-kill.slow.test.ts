import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import type { Finished } from "@holdfast/test-support/built-command";
import { workSuite } from "@holdfast/test-support/cli-repositories";
import { type HttpFault, type HttpRemote, startHttpRemote } from "@holdfast/test-support/git/http-remote";
import { readProcessTable } from "@holdfast/platform/process-tree";
import { chanceOf, sample, suiteSeed } from "../test/faults/harness/seed.ts";

/*
 * Real kills and cut connections while the files of a run are pushed and fetched. After each of them the same command completes: every
 * snapshot is on the remote once, and in the other clone once.
 */

const suite = workSuite();
const DIE_AT = join(import.meta.dirname, "../../test-support/src/store-processes/die-at.ts");
const RUN = "mine";

interface Scene {
  readonly remote: HttpRemote;
  readonly counter: string;
  /** Takes a checkpoint with new files and sends nothing. */
  save(): Promise<void>;
  /** Runs the command that is killed or cut off. */
  begin(action: Action, dieAt?: number): { readonly pid: number; readonly ended: Promise<Finished> };
  /** The result of an undisturbed command. */
  act(action: Action): Promise<string>;
  /** Entries of the chain on the remote. */
  onRemote(): readonly string[];
  verify(action: Action): Promise<number | null>;
  /** Names of the snapshots that the clone of this command has. */
  refs(action: Action): readonly string[];
}

type Action = "push" | "fetch";

async function beginScene(): Promise<Scene> {
  const { clone, remote: bare, git, holdfast } = await suite.begin();
  const folder = join(clone, "..");
  const other = join(folder, "elsewhere/shop");
  await mkdir(join(folder, "elsewhere"));
  await git("clone", "-q", bare, other);
  const remote = await startHttpRemote(bare);
  const counter = join(folder, "count");
  const env = { HOLDFAST_STORE: join(folder, "store"), COUNTER: counter, DIE_WITH: "promises" };
  const places = { push: clone, fetch: other };
  for (const place of Object.values(places))
    await writeFile(join(place, "holdfast.config.yaml"), `files: { remote: "${remote.url}" }\n`);
  const gitOut = (cwd: string, ...args: readonly string[]): string =>
    execFileSync("git", args, { cwd, encoding: "utf8" }).trim();
  let saved = 0;
  return {
    remote,
    counter,
    async save() {
      saved += 1;
      await writeFile(join(clone, "data.bin"), randomBytes(200_000));
      const args = ["--no-config", "checkpoint", "--run", RUN, "--name", `n${saved}`];
      const done = await holdfast.run(args, { cwd: clone, env });
      expect(done.status, done.stderr).toBe(0);
    },
    begin(action, dieAt) {
      const node = dieAt === undefined ? [] : ["--no-warnings", "--import", pathToFileURL(DIE_AT).href];
      const child = holdfast.start(["--json", "store", action, RUN], {
        cwd: places[action],
        env: { ...env, DIE_AT: String(dieAt ?? 0) },
        node,
      });
      let [stdout, stderr] = ["", ""];
      child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
      child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
      const ended = new Promise<Finished>((resolve) =>
        child.on("exit", (status) => resolve({ status, stdout, stderr })),
      );
      return { pid: child.pid ?? 0, ended };
    },
    async act(action) {
      const done = await holdfast.run(["--json", "store", action, RUN], { cwd: places[action], env });
      expect(done.stderr).toBe("");
      const row = JSON.parse(done.stdout).runs[0];
      expect(["pushed", "fetched", "same"], JSON.stringify(row)).toContain(row.result);
      return row.result;
    },
    onRemote() {
      const ref = gitOut(bare, "for-each-ref", "--format=%(refname)", `refs/holdfast/${RUN}/files`);
      return gitOut(bare, "log", "--first-parent", "--format=%s", ref).split("\n").slice(0, -1);
    },
    verify: async (action) => (await holdfast.run(["verify"], { cwd: places[action], env })).status,
    refs: (action) =>
      gitOut(places[action], "for-each-ref", "--format=%(refname)", `refs/holdfast/${RUN}`)
        .split("\n")
        .filter((name) => /\/\d+$/.test(name)),
  };
}

/** The command with all processes that it has started, or alone: its git then works on by itself. */
function kill(pid: number, all: boolean): void {
  const table = all ? (readProcessTable({ known: new Map(), onSight: undefined })?.live ?? new Map()) : new Map();
  const doomed = [pid];
  for (const one of doomed) for (const { pid: child, parent } of table.values()) if (parent === one) doomed.push(child);
  for (const one of doomed)
    try {
      process.kill(one, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
}

/** Pushes, then fetches: nothing is missing, nothing is there twice. */
async function expectWhole(scene: Scene, count: number, where: string): Promise<void> {
  scene.remote.expectFault(null);
  await scene.act("push");
  expect(await scene.act("push"), where).toBe("same");
  await scene.act("fetch");
  expect(await scene.act("fetch"), where).toBe("same");
  const names = scene.onRemote();
  expect([names.length, new Set(names).size], where).toEqual([count, count]);
  expect(scene.refs("fetch"), where).toEqual(scene.refs("push"));
  expect(scene.refs("fetch"), where).toHaveLength(count);
}

test.each(["push", "fetch"] as const)(
  "a %s over http whose connection is cut, or that is killed then, is completed by the next",
  async (action) => {
    const scene = await beginScene();
    await using remote = scene.remote;
    // The calm first time counts the requests, with all that a later one has: a chain that is there already.
    for (const _ of [1, 2]) {
      await scene.save();
      if (action === "fetch") await scene.act("push");
      remote.expectFault(null);
      await scene.act(action);
    }
    const { requests } = remote;
    expect(requests).toBeGreaterThan(1);
    await expectWhole(scene, 2, "calm");
    const faults = (["cut", "kill", "kill alone"] as const).flatMap((what) =>
      Array.from({ length: requests }, (_, i) => i + 1).flatMap((request) =>
        (what === "kill alone" ? (["after", "whole"] as const) : (["before", "middle", "after"] as const)).map(
          (at) => ({
            what,
            request,
            at,
          }),
        ),
      ),
    );
    const seed = suiteSeed();
    let count = 2;
    for (const { what, request, at } of sample(chanceOf(seed, `files-http-${action}`), faults, 9)) {
      const where = `HOLDFAST_SEED=${seed}: ${what} ${at} request ${request} of ${requests}`;
      await scene.save();
      count += 1;
      if (action === "fetch") await scene.act("push");
      let victim = { pid: 0, ended: Promise.resolve<Finished>({ status: 0, stdout: "", stderr: "" }) };
      let reached = false;
      const meanwhile = async (): Promise<void> => {
        reached = true;
        if (what === "cut") return;
        kill(victim.pid, what === "kill");
        await victim.ended;
      };
      remote.expectFault({ request, at, meanwhile } satisfies HttpFault);
      victim = scene.begin(action);
      const { status, stdout } = await victim.ended;
      expect(reached, where).toBe(true);
      if (what === "cut" && status !== 0) expect(JSON.parse(stdout).runs[0].result, where).toBe("refused");
      if (what !== "cut") expect(status, where).toBeNull();
      await expectWhole(scene, count, where);
    }
    for (const each of ["push", "fetch"] as const) expect(await scene.verify(each)).toBe(0);
  },
);

test.each(["push", "fetch"] as const)(
  "a %s that is killed between any two of its own steps is completed by the next",
  async (action) => {
    const scene = await beginScene();
    await using _remote = scene.remote;
    for (const _ of [1, 2]) {
      await scene.save();
      if (action === "fetch") await scene.act("push");
      expect((await scene.begin(action, 0).ended).status).toBe(0);
    }
    const calls = Number(readFileSync(scene.counter, "utf8"));
    expect(calls).toBeGreaterThan(10);
    const seed = suiteSeed();
    const deaths = Array.from({ length: calls }, (_, at) => at + 1);
    let count = 2;
    for (const dieAt of sample(chanceOf(seed, `files-kill-${action}`), deaths, 8)) {
      const where = `HOLDFAST_SEED=${seed}, operation ${dieAt} of ${calls}`;
      await scene.save();
      count += 1;
      if (action === "fetch") await scene.act("push");
      const { status } = await scene.begin(action, dieAt).ended;
      // The number of operations differs slightly, so one of the last may not happen.
      expect([null, 0], where).toContain(status);
      await expectWhole(scene, count, where);
    }
    for (const each of ["push", "fetch"] as const) expect(await scene.verify(each)).toBe(0);
  },
);
