import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { openLocalForge } from "@holdfast/forges/local";
import { readProcess, readProcessTable } from "@holdfast/platform/process-tree";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";

describe("crunch", () => {
  const work = workSuite();

  const SAYS = { reply: '{"status": "SUCCESS", "summary": "Done."}', usage: { input: 800, output: 200 } };

  async function putGraph(place: WorkPlace, text: string): Promise<void> {
    await mkdir(join(place.clone, ".holdfast/crunch/graphs"), { recursive: true });
    await writeFile(join(place.clone, ".holdfast/crunch/graphs/enrich.yaml"), text);
  }

  test("a text becomes an issue, a team enriches it, the run stops at its target and continues", async () => {
    const place = await work.begin();
    await putGraph(
      place,
      "nodes:\n  - { id: spec, agent: system-architect, action: create_spec, task: Write it down. }\n",
    );
    const agent = await place.agent([SAYS]);
    const words = ["run", "--workflow", "crunch", "--task", "Greet everybody", "--type", "bug", "--agent", agent];
    const done = await place.run(...words, "--target", "enrich");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toContain("Done issue-2: Stopped at enrich, its target.");
    expect(done.stdout).toContain("Continue with: holdfast resume issue-2 --target PHASE");
    for (const line of done.stdout.split("\n")) expect(line.length, line).toBeLessThanOrEqual(100);
    const forge = openLocalForge({ repository: place.remote });
    expect(await forge.getIssue(2)).toMatchObject({ title: "Greet everybody", labels: ["type:bug", "state:enrich"] });
    expect(await place.git("branch", "--list", "--format=%(refname:short)")).toContain("fix/issue-2-greet-everybody");

    const on = await place.run("resume", "issue-2", "--target", "ready");
    expect(on.status, on.stdout + on.stderr).toBe(0);
    expect(on.stdout).toContain("Stopped at ready");
    expect((await forge.getIssue(2))?.labels).toEqual(["type:bug", "state:ready"]);
    expect(await place.run("resume", "issue-2", "--target", "enrich")).toMatchObject({ status: 2 });
  }, 120_000);

  test("an error in a file of crunch's is reported with its line before the start; valid ones are printed", async () => {
    const place = await work.begin();
    await putGraph(place, "nodes:\n  - { id: spec, agent: absent, action: create_spec, task: Write. }\n");
    const agent = await place.agent([SAYS]);
    const refused = await place.run("run", "1", "--workflow", "crunch", "--agent", agent);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toMatch(/graphs\/enrich\.yaml:2:\d+: .*absent/);
    expect(await place.git("branch", "--list")).toBe("* main");
    await putGraph(place, "nodes: []\n");
    const { files } = await place.json("config", "--crunch");
    expect(files.map((file: { readonly path: string }) => file.path)).toEqual([
      "agents.yaml",
      "team.yaml",
      "weights.yaml",
      "veto.yaml",
      "graphs/enrich.yaml",
      "graphs/implementing.yaml",
      "graphs/e2e.yaml",
      "graphs/docs.yaml",
    ]);
  }, 60_000);
});

describe("killed supervisor", () => {
  /** `kill -9` of the real command, as a user or the kernel does it, and the fate of the agent that it had started. */

  const work = workSuite();

  /**
   * One process in its own session that ignores SIGTERM, one forked twice; then it hangs. Each writes its process id.
   */
  const LONELY = `
setsid sh -c 'trap "" TERM; echo $$ > "$1/session.pid"; exec sleep 600' sh "$1" >/dev/null 2>&1 </dev/null &
sh -c 'setsid sh -c "echo \\$\\$ > \\"\\$1/forked.pid\\"; exec sleep 600" sh "$1" >/dev/null 2>&1 </dev/null &' sh "$1"
echo $$ > "$1/agent.pid"
sleep 600
`;

  test.skipIf(readProcessTable() === null)(
    "the agent of a killed Holdfast ends by itself, with all that it had started",
    async () => {
      const { clone, ...place } = await work.begin();
      const notes = dirname(clone);
      await writeFile(join(notes, "lonely.sh"), LONELY);
      const agent = `command:sh ${join(notes, "lonely.sh")} ${notes}`;
      const { child } = place.start("run", "1", "--no-review", "--agent", agent);
      const files = ["agent", "session", "forked"].map((name) => join(notes, `${name}.pid`));
      await until(() => files.every((path) => existsSync(path) && readFileSync(path, "utf8").endsWith("\n")));
      const pids = files.map((path) => Number(readFileSync(path, "utf8")));
      expect(pids.map((pid) => readProcess(pid)?.mark ?? "")).toEqual(
        Array(3).fill(expect.stringContaining("issue-1")),
      );
      child.kill("SIGKILL");
      await until(() => pids.every((pid) => readProcess(pid) === null));
    },
  );

  /** The limit is generous, because a slow machine is not a failure. */
  async function until(isSo: () => boolean): Promise<void> {
    const limit = performance.now() + 120_000;
    while (!isSo()) {
      if (performance.now() > limit) expect.fail("still not so after two minutes");
      await pause(20);
    }
  }
});

describe("retention", () => {
  const work = workSuite();

  test("a done run keeps all checkpoints in the store, unless the user's own retention drops some", async () => {
    const place = await work.begin();
    const agent = await place.agent([GOOD]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 0 });
    const count = async (): Promise<number> =>
      (await place.json("list", "issue-1", "--limit", "all")).checkpoints.length;
    const before = await count();
    expect(before).toBeGreaterThan(5);
    // The first checkpoint of another run is when the daily clean-up is due.
    const other = await place.run("checkpoint", "--name", "unrelated");
    expect(other).toMatchObject({ status: 0, stderr: expect.not.stringContaining("Daily clean-up") });
    expect(await count()).toBe(before);

    const planned = await place.run("gc", "--dry-run");
    expect(planned.stdout).toContain("its run is younger than 30 days");
    expect(planned.stdout).toMatch(new RegExp(`^issue-1 +${before} +[\\d.]+ [kM]?B$`, "m"));
    const { usage } = await place.json("doctor");
    expect(usage).toContainEqual({ run: "issue-1", checkpoints: before, bytes: expect.any(Number) });
    expect((await place.run("doctor")).stdout).toMatch(new RegExp(`^issue-1 +${before} +[\\d.]+ [kM]?B$`, "m"));

    await writeFile(join(place.clone, "holdfast.config.yaml"), "retention: { onSuccess: keep_latest }\n");
    expect(await place.run("gc", "--yes")).toMatchObject({ status: 0 });
    expect(await count()).toBeLessThan(before);
  });
});
