import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { readProcess, readProcessTable } from "@holdfast/platform/process-tree";
import { type GithubScene, createGithubScene, forgeTransports } from "@holdfast/test-support/forges/forge-scenes";

const CHILD = join(import.meta.dirname, "../../test-support/src/store-processes/forge-run.ts");
const [, gh] = forgeTransports("gh");

/** The request on the command line of the program, and at the server. */
const REQUESTS: readonly { readonly typed: string; readonly sent: RegExp }[] = [
  { typed: "*--method POST*/issues", sent: /^POST .*\/issues$/ },
  { typed: "*--method POST*/comments", sent: /^POST .*\/comments$/ },
  { typed: "*--method PUT*/labels", sent: /^PUT .*\/labels$/ },
  { typed: "*--method POST*/pulls", sent: /^POST .*\/pulls$/ },
];

let scene: GithubScene | undefined;

afterEach(async () => {
  await scene?.dispose();
  scene = undefined;
});

describe.skipIf(gh.skip)(`a run killed while a request is under way, through ${gh.name}`, () => {
  test("whose program outlives Holdfast: an issue, a comment, a label and a pull request are not sent later, and created once", async () => {
    const place = await createPlace();
    // Nothing that was sent is late here, so nothing need be waited for.
    writeFileSync(place.at("waited"), "");
    const orphans: number[] = [];
    for (const { typed } of REQUESTS) {
      const held = place.hold(typed);
      const life = place.start();
      await vi.waitFor(() => expect(existsSync(held)).toBe(true), PATIENT);
      const orphan = Number(readFileSync(held, "utf8"));
      killWatchdog(life, orphan);
      await killed(life);
      orphans.push(orphan);
      expect(orphans.map(isAlive)).toEqual(orphans.map((_, at) => at === orphans.length - 1));
    }
    expect(await ended(place.start())).toBe(0);
    // They would send their requests now.
    writeFileSync(place.at("go"), "");
    await vi.waitFor(() => expect(orphans.map(isAlive)).toEqual([false, false, false, false]), PATIENT);
    expect(place.done()).toEqual({ issues: 2, comments: 1, labelled: 1, pulls: 1 });
  });

  test("on which the server acts late, after the look-up: each of them is waited for and adopted", async () => {
    const place = await createPlace();
    const { faults, asked } = place.server;
    const late = REQUESTS.map(({ sent }) => ({ sent, ...Promise.withResolvers<void>() }));
    for (const { sent, promise: until } of late)
      faults.set({ match: sent, times: 1, when: "before", effect: { kind: "late", until } });
    let life = place.start();
    for (const [at, { sent, resolve: act }] of late.entries()) {
      await vi.waitFor(() => expect(faults.left).toBe(late.length - at - 1), PATIENT);
      await killed(life);
      for (const name of ["waiting", "waited"]) rmSync(place.at(name), { force: true });
      life = place.start();
      await vi.waitFor(() => expect(existsSync(place.at("waiting"))).toBe(true), PATIENT);
      act();
      await vi.waitFor(() => expect(asked.filter((line) => sent.test(line))).toHaveLength(1), PATIENT);
      writeFileSync(place.at("waited"), "");
    }
    expect(await ended(life)).toBe(0);
    expect(place.done()).toEqual({ issues: 2, comments: 1, labelled: 1, pulls: 1 });
  });
});

const PATIENT = { timeout: 600_000, interval: 20 };

/** Calls of the program that are held wait, each once, for the file `go` before they become the program. */
async function createPlace() {
  scene = await createGithubScene(gh.program);
  const { server, repository, remote, env, push } = scene;
  await push({ branch: "topic", from: "main", files: { "b.txt": "b\n" } });
  const at = "2026-01-01T00:00:00Z";
  const issue = { author: "dev", title: "One", body: "", state: "open", createdAt: at, updatedAt: at } as const;
  repository.issues.push({ ...issue, number: 1, labels: [] });
  const folder = join(remote.folder, "run");
  mkdirSync(folder);
  const path = (name: string): string => join(folder, name);
  const program = path("gh");
  const write = (body: string): void =>
    writeFileSync(program, `#!/bin/sh\n${body}exec ${gh.program} "$@"\n`, { mode: 0o755 });
  let holds = 0;
  write("");
  return {
    server,
    at: path,
    /** Returns the file that holds the number of the process which was held. */
    hold(typed: string): string {
      holds += 1;
      const [once, held] = [path(`once-${holds}`), path(`held-${holds}`)];
      const hold = `echo $$ > ${held}.new; mv ${held}.new ${held}`;
      const wait = `while [ ! -e ${path("go")} ]; do [ -d ${folder} ] || exit 1; sleep 0.05; done`;
      const pattern = typed.replaceAll(" ", "\\ ");
      rmSync(program);
      write(`case "$*" in ${pattern}) if mkdir ${once} 2>/dev/null; then ${hold}; ${wait}; fi;; esac\n`);
      return held;
    },
    start: () => spawn(process.execPath, ["--no-warnings", CHILD, folder, program], { env, stdio: "inherit" }),
    done: () => ({
      issues: repository.issues.length,
      comments: repository.comments.length,
      labelled: server.asked.filter((line) => /^PUT .*\/labels$/.test(line)).length,
      pulls: repository.pulls.length,
    }),
  };
}

/** The watchdog would end the program that is held. It is the only other child of the process. */
function killWatchdog(life: ChildProcess, held: number): void {
  const children = readProcessTable()?.live.filter(({ parent, pid }) => parent === life.pid && pid !== held) ?? [];
  expect(children).toHaveLength(1);
  for (const { pid } of children) process.kill(pid, "SIGKILL");
}

async function killed(child: ChildProcess): Promise<void> {
  const gone = ended(child);
  child.kill("SIGKILL");
  await gone;
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("exit", resolve));
}

/** A process that has exited and that its parent has not waited for yet is not alive. */
function isAlive(pid: number): boolean {
  return readProcess(pid) !== null;
}
