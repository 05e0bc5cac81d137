import { renameSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { postgresMissing, startPostgres } from "@holdfast/test-support/postgres-server";
import { JSON_SCHEMAS } from "../json-schemas.ts";
import type { Health } from "../../worker/worker-health.ts";

/* The endpoint of real workers, while their database goes and comes back. */

const work = workSuite();
const HANG = { when: { role: "impl" }, edits: [{ do: "write", path: "half.txt", text: "half\n" }], hang: true };
const TIMINGS = JSON.stringify({ lookMs: 50, heartbeatMs: 200, reconcileMs: 500 });

interface Watched {
  /** Waits until the endpoint answers so. */
  untilHealth(status: 200 | 503, body: Partial<Health["body"]>): Promise<void>;
  says(kind: string): Promise<{ readonly url?: string; readonly worker?: string }>;
  readonly ended: Promise<number | null>;
  stop(): void;
}

async function startWorker(place: WorkPlace, args: readonly string[], env: Record<string, string>): Promise<Watched> {
  const child = place.holdfast.start(["--json", "worker", "--here", "--health", "0", ...args], {
    cwd: place.clone,
    env: { HOLDFAST_DISPATCH_TIMINGS: TIMINGS, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const says: Watched["says"] = async (kind) => {
    for (;;) {
      const events = stdout.split("\n").slice(0, -1);
      const found = events.map(parsed).find((event) => event.kind === kind);
      if (found !== undefined) return found;
      expect(child.exitCode, stderr).toBeNull();
      await pause(50);
    }
  };
  const { url = "" } = await says("health");
  return {
    says,
    ended,
    stop: () => void child.kill("SIGTERM"),
    async untilHealth(status, body) {
      for (;;) {
        const response = await fetch(url);
        const found = { status: response.status, body: await response.json() };
        if (found.status === status && matches(found.body, body)) return;
        await pause(50);
      }
    },
  };
}

function parsed(line: string): ReturnType<typeof JSON.parse> {
  const event = JSON.parse(line);
  expect(JSON_SCHEMAS["worker"]?.safeParse(event), line).toMatchObject({ success: true });
  return event;
}

function matches(found: unknown, wanted: object): boolean {
  try {
    expect(found).toMatchObject(wanted);
    return true;
  } catch {
    return false;
  }
}

test("a worker is unhealthy while its store is gone, and until then and afterwards healthy", async () => {
  const place = await work.begin();
  await place.json("checkpoint", "--run", "mine", "--name", "first");
  const worker = await startWorker(place, [], {});
  const well = { healthy: true, slots: null, busy: 0, draining: false, heartbeatAgeMs: null, problems: [] };
  await worker.untilHealth(200, well);
  const [database, gone] = ["store.db", "gone"].map((name) => join(place.clone, ".git/holdfast", name));
  renameSync(database ?? "", gone ?? "");
  await worker.untilHealth(503, {
    healthy: false,
    problems: [expect.stringContaining(`cannot look at ${place.clone}: `)],
  });
  renameSync(gone ?? "", database ?? "");
  await worker.untilHealth(200, well);
  worker.stop();
  expect(await worker.ended).toBe(143);
});

describe("a worker of a queue on PostgreSQL with DBOS", () => {
  const missing = postgresMissing();
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

  test("is unhealthy while the server is gone, healthy when it is back, and shows that it drains", async () => {
    const place = await work.begin();
    const server = await startPostgres(onTestFinished);
    const env = { HOLDFAST_STORE: server.url() };
    await writeFile(join(place.clone, "holdfast.config.yaml"), JSON.stringify({ files: { remote: "origin" } }));
    const worker = await startWorker(place, ["--join", "--slots", "3"], env);
    const { worker: id = "" } = await worker.says("joined");
    const well = { healthy: true, worker: id, slots: 3, busy: 0, draining: false, problems: [] };
    await worker.untilHealth(200, { ...well, heartbeatAgeMs: expect.any(Number) });
    await server.stop();
    const silent = expect.stringMatching(/^the store of .*: (?:no answer within 2 s|.*cannot be reached)/);
    await worker.untilHealth(503, { healthy: false, problems: expect.arrayContaining([silent]) });
    await server.start();
    await worker.untilHealth(200, well);

    const agent = await place.agent([HANG]);
    const submitted = await place.holdfast.run(["submit", "1", "--no-review", "--agent", agent], {
      cwd: place.clone,
      env,
    });
    expect(submitted, submitted.stderr).toMatchObject({ status: 0 });
    await worker.untilHealth(200, { busy: 1 });
    const status = async () => {
      const { stdout } = await place.holdfast.run(["--json", "status", "issue-1"], { cwd: place.clone, env });
      return JSON.parse(stdout).run.status;
    };
    let found = await status();
    for (; found.kind !== "running"; found = await status()) await pause(300);
    // Its run does not hear the signal, so the worker waits for it.
    process.kill(found.holder.pid, "SIGSTOP");
    worker.stop();
    await worker.untilHealth(200, { healthy: true, draining: true, busy: 1 });
    process.kill(found.holder.pid, "SIGCONT");
    expect(await worker.ended).toBe(143);
    expect(await worker.says("left")).toMatchObject({ level: "info" });
  });
});
