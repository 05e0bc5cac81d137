import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { buildCommand } from "@holdfast/test-support/built-command";
import { createCherryPickRuns } from "@holdfast/test-support/core/cherry-pick-scene";
import { chanceOf, isFullRun, sample, suiteSeed } from "./faults/harness/seed.ts";

const DIE_AT = new URL("../../test-support/src/store-processes/die-at.ts", import.meta.url).href;
vi.setConfig({ testTimeout: isFullRun() ? 3_600_000 : 240_000 });

test("killed at any write, a choice is made or not, there are never two winners, and the same command makes it", async () => {
  const { ours, theirs, repo, holdfast } = await createCherryPickRuns({ "a.txt": "one\n" });
  theirs.write("a.txt", "two\n");
  await theirs.handle.save();
  await theirs.handle.close();
  await ours.handle.close();

  const counter = join(repo.root, "../count");
  const command = await buildCommand();
  onTestFinished(() => command.remove());
  const choose = async (chosen: string, dieAt: number): Promise<string> => {
    const child = command.start(["compare", "ours", "theirs", "--choose", chosen], {
      cwd: repo.root,
      node: ["--no-warnings", "--import", DIE_AT],
      env: { DIE_AT: String(dieAt), COUNTER: counter },
    });
    const complaint = text(child.stderr ?? expect.unreachable("it has no standard error"));
    child.stdout?.resume();
    const [status, signal] = await once(child, "close");
    return status === 0 ? "ended" : String(signal ?? (await complaint));
  };
  const winners = async (): Promise<readonly string[]> => {
    const all = [...(await ours.handle.list()), ...(await theirs.handle.list())];
    return all.filter(({ tags }) => tags.includes("chosen")).map(({ id }) => id);
  };

  /** As before, when the other one was the winner. */
  const begin = async (): Promise<void> => {
    await ours.handle.tag(1, "chosen", { move: true, from: ["theirs"] });
    expect(await winners()).toEqual(["ours@1"]);
  };

  await begin();
  expect(await choose("theirs", 0)).toBe("ended");
  expect(await winners()).toEqual(["theirs@2"]);
  const calls = Number(readFileSync(counter, "utf8"));

  const seed = suiteSeed();
  const deaths = Array.from({ length: calls }, (_, at) => at + 1);
  const seen = new Set<string>();
  // What is written comes last, after all that is compared.
  const sampled = isFullRun() ? deaths : sample(chanceOf(seed, "choose-kill"), deaths.slice(-WRITES), 4);
  for (const dieAt of sampled) {
    const where = `HOLDFAST_SEED=${seed}, operation ${dieAt} of ${calls}`;
    await begin();
    const end = await choose("theirs", dieAt);
    // How many operations there are differs by a few from life to life: one of the last may not come.
    if (end !== "ended") expect([where, end]).toEqual([where, "SIGKILL"]);
    const [winner, ...more] = await winners();
    expect([where, more]).toEqual([where, []]);
    expect([where, ["ours@1", "theirs@2"]]).toEqual([where, expect.arrayContaining([winner])]);
    seen.add(winner ?? "");
    expect([where, await choose("theirs", 0)]).toEqual([where, "ended"]);
    expect([where, await winners()]).toEqual([where, ["theirs@2"]]);
  }
  if (isFullRun()) expect([...seen].toSorted()).toEqual(["ours@1", "theirs@2"]);
  for await (const event of holdfast.verify()) if (event.kind === "summary") expect(event.ok).toBe(true);
});

const WRITES = 16;
