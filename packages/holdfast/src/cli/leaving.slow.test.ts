import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { workSuite } from "./testing/work-repository.ts";
import type { Started, WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();

/** A run whose agent does not listen to SIGTERM and would work for a long time. */
async function startStubborn(place: WorkPlace): Promise<Started & { readonly agent: number }> {
  const file = join(place.clone, "../agent.pid");
  const started = place.start(
    "run",
    "1",
    "--agent",
    `command:trap '' TERM HUP; echo $$ > '${file}'; while :; do sleep 1; done`,
  );
  while (!existsSync(file) || readFileSync(file, "utf8").trim() === "") await pause(50);
  return { ...started, agent: Number(readFileSync(file, "utf8")) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
}

describe("no agent goes on alone", () => {
  test("after a second Ctrl+C", async () => {
    const place = await work.begin();
    const { child, agent, ended } = await startStubborn(place);
    child.kill("SIGINT");
    await pause(100);
    child.kill("SIGINT");
    expect((await ended).status).toBe(130);
    while (isAlive(agent)) await pause(20);
    expect(await place.json("status", "1")).toMatchObject({ condition: { kind: "crashed" } });
  });

  test("when the terminal is closed: the run is saved as for any other signal, however often it is told", async () => {
    const place = await work.begin();
    const { child, agent, ended } = await startStubborn(place);
    child.kill("SIGHUP");
    child.kill("SIGHUP");
    expect((await ended).status).toBe(143);
    expect(isAlive(agent)).toBe(false);
    expect(await place.json("status", "1")).toMatchObject({ condition: { kind: "stopped" } });
  });
});
