import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { whyNoLoopDisk } from "./harness/mounted.ts";
import { countedIn, record, recordFaulty } from "./harness/record.ts";
import type { Recording } from "./harness/record.ts";
import { clearScratch, scratchFolder } from "./harness/scratch.ts";
import { chanceOf, sample } from "./harness/seed.ts";
import { sweepKills, sweepPower } from "./harness/sweep.ts";
import type { Judge } from "./harness/sweep.ts";
import { sweepRealPower } from "./harness/sweep-real-power.ts";
import { trace, whyNoTracer } from "./harness/traced.ts";
import { writerCommand } from "./harness/writer.ts";

// A harness that cannot fail proves nothing: wrong ways to save must be caught, by the fault that breaks them.

const CHANCE = 7;
const EVERYWHERE = 10_000;

afterAll(clearScratch);
beforeEach(async ({ skip }) => {
  const reason = await whyNoTracer();
  if (reason !== undefined) skip(reason);
});

const judgeToy: Judge = async ({ root, printed }) => {
  const acked = printed.filter((line) => line.startsWith("ACK ")).length;
  const path = join(root, "inner", "state");
  if (!existsSync(path)) return acked === 0 ? [] : [`LOST: ${acked} acknowledged, none found`];
  const [digest, ...rest] = readFileSync(path, "utf8").split("\n");
  const body = rest.join("\n");
  if (createHash("sha256").update(body).digest("hex") !== digest) return ["TORN"];
  return Number(rest[0]) < acked ? [`LOST: ${acked} acknowledged, found ${rest[0]}`] : [];
};

async function recordToy(way: string): Promise<Recording> {
  const root = scratchFolder("toy");
  return record({ command: await writerCommand("toy", way, root, "3"), root });
}

function kindsOf(bad: readonly { readonly problems: readonly string[] }[]): readonly string[] {
  return [...new Set(bad.flatMap(({ problems }) => problems.map((problem) => problem.split(":")[0] ?? "")))].sort();
}

describe("the harness distinguishes wrong ways to save from the right one", () => {
  const expected = {
    naive: { kill: ["TORN"], posix: ["LOST", "TORN"], ext4: ["LOST", "TORN"] },
    rename: { kill: [], posix: ["LOST", "TORN"], ext4: ["LOST", "TORN"] },
    "fsync-rename": { kill: [], posix: ["LOST"], ext4: ["LOST"] },
    right: { kill: [], posix: [], ext4: [] },
  } as const;

  test.each(Object.entries(expected))("%s", async (way, wanted) => {
    const recording = await recordToy(way);
    const common = { recording, judge: judgeToy, cases: EVERYWHERE };
    const kill = await sweepKills({ ...common, chance: chanceOf(CHANCE, "kill") });
    const posix = await sweepPower({ ...common, model: "posix", statesPerCase: 12, chance: chanceOf(CHANCE, "posix") });
    const ext4 = await sweepPower({ ...common, model: "ext4", statesPerCase: 12, chance: chanceOf(CHANCE, "ext4") });
    expect({ kill: kindsOf(kill.bad), posix: kindsOf(posix.bad), ext4: kindsOf(ext4.bad) }).toEqual(wanted);
  });

  test("a real kill leaves what the recording foretells", async () => {
    const recording = await recordToy("right");
    const counted = countedIn(recording);
    expect(counted).toBeGreaterThan(12);
    const numbers = Array.from({ length: counted }, (_, i) => i + 1);
    for (const at of sample(chanceOf(CHANCE, "kills"), numbers, 10)) {
      const root = scratchFolder("toy");
      const fault = { at, do: "kill", phase: at % 2 === 0 ? "before" : "after" } as const;
      const killed = await trace({ command: await writerCommand("toy", "right", root, "3"), root, fault });
      expect(killed.code).toBe(137);
      expect(await judgeToy({ root, printed: killed.stdout.split("\n") })).toEqual([]);
      const done = killed.operations.filter((operation) => operation.number > 0).length;
      expect(done).toBe(fault.phase === "after" ? at : at - 1);
    }
  });

  test("a real power cut takes what was not synced, and only that", async ({ skip }) => {
    const refusal = await whyNoLoopDisk("ext4");
    if (refusal !== undefined) return skip(refusal);
    const sweepWay = async (way: string): Promise<readonly string[]> => {
      const subject = {
        prepare: async () => [],
        command: (root: string) => writerCommand("toy", way, root, "3"),
        judge: () => judgeToy,
      };
      const swept = await sweepRealPower({ kind: "ext4", subject, chance: chanceOf(CHANCE, "real"), cases: 7 });
      return kindsOf(swept.bad);
    };
    expect(await sweepWay("fsync-rename")).toEqual(["LOST"]);
    expect(await sweepWay("right")).toEqual([]);
  });

  test("a sync that failed and then succeeds is not believed", async () => {
    const sweepWay = async (way: string): Promise<readonly string[]> => {
      const root = scratchFolder("toy");
      const command = await writerCommand("toy", way, root, "3");
      // The first sync is the folder's.
      const recording = await recordFaulty({
        command,
        root,
        fault: { at: 2, kinds: ["fsync"], do: "errno", errno: 5 },
      });
      expect(recording.code).toBe(0);
      const swept = await sweepPower({
        recording,
        judge: judgeToy,
        cases: EVERYWHERE,
        model: "posix",
        statesPerCase: 4,
        chance: chanceOf(CHANCE, "gate"),
      });
      return kindsOf(swept.bad);
    };
    expect(await sweepWay("fsync-again")).toEqual(["TORN"]);
    expect(await sweepWay("write-again")).toEqual([]);
  });

  test("a torn write, a refused and a short one are really made", async () => {
    const root = scratchFolder("toy");
    mkdirSync(root, { recursive: true });
    const command = await writerCommand("toy", "naive", root, "1");
    const torn = await trace({ command, root, fault: { at: 1, kinds: ["write"], do: "tear" } });
    expect(
      torn.operations
        .filter(({ kind }) => kind === "write")
        .map((write) => (write.kind === "write" ? write.bytes.length : 0)),
    ).toEqual([4_783]);
    expect(await judgeToy({ root, printed: [] })).toEqual(["TORN"]);

    const other = scratchFolder("toy");
    const refused = await trace({
      command: await writerCommand("toy", "naive", other, "1"),
      root: other,
      fault: { at: 1, kinds: ["write"], do: "errno", errno: 28 },
    });
    expect(refused.stderr).toContain("ENOSPC");

    const third = scratchFolder("toy");
    const short = await trace({
      command: await writerCommand("toy", "naive", third, "1"),
      root: third,
      fault: { at: 1, kinds: ["write"], do: "short" },
    });
    expect(short.operations.filter(({ kind }) => kind === "write")).toHaveLength(2);
    expect(await judgeToy({ root: third, printed: short.stdout.split("\n") })).toEqual([]);
  });
});
