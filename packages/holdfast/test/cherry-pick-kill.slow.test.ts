import { execFile } from "node:child_process";
import { readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import { createCherryPickRuns } from "@holdfast/test-support/core/cherry-pick-scene";
import { chanceOf, isFullRun, sample, suiteSeed } from "./faults/harness/seed.ts";

const CHILDREN = join(import.meta.dirname, "../../test-support/src/store-processes");
const LAST_FEW = 10;
vi.setConfig({ testTimeout: isFullRun() ? 3_600_000 : 240_000 });

test("killed anywhere, existing files are on disk or in a checkpoint, and the same cherry-pick completes it", async () => {
  const scene = await createCherryPickRuns({
    "src/a.txt": "one\n",
    "src/b.txt": "two\n",
    "src/c.txt": "three\n",
    "keep.txt": "k\n",
  });
  const { ours, theirs, repo, holdfast } = scene;
  theirs.write("src/a.txt", "theirs\n");
  rmSync(join(theirs.root, "src/b.txt"));
  theirs.write("src/deep/d.txt", "new\n");
  symlinkSync("a.txt", join(theirs.root, "src/link"));
  await theirs.handle.save();
  await theirs.handle.close();
  await ours.handle.close();

  const counter = join(repo.root, "../count");
  const cherryPick = (dieAt: number): Promise<string> => {
    const node = ["--no-warnings", "--import", pathToFileURL(join(CHILDREN, "die-at.ts")).href];
    const env = { ...process.env, DIE_AT: String(dieAt), COUNTER: counter };
    return new Promise((resolve) => {
      execFile(
        process.execPath,
        [...node, join(CHILDREN, "cherry-pick-life.ts"), repo.root],
        { env },
        (error, _said, complaint) => resolve(error === null ? "ended" : (error.signal ?? complaint)),
      );
    });
  };
  /** The state before any cherry-pick, with a user's edit that no checkpoint holds yet. */
  const begin = async (round: number) => {
    await ours.handle.restore({ sequence: 1 });
    await ours.handle.close();
    writeFileSync(join(ours.root, "keep.txt"), `by a person, ${round}\n`);
    const files = ours.files();
    const tree = (await (await ours.handle.workspace())?.currentFiles())?.tree;
    return { files, tree, after: { ...theirs.files(), "keep.txt": files["keep.txt"] } };
  };

  const calm = await begin(0);
  expect(await cherryPick(0)).toBe("ended");
  expect(ours.files()).toEqual(calm.after);
  const calls = Number(readFileSync(counter, "utf8"));
  expect(calls).toBeGreaterThan(40);

  const seed = suiteSeed();
  const deaths = Array.from({ length: calls }, (_, at) => at + 1);
  const seen = new Set<string>();
  for (const dieAt of sample(chanceOf(seed, "cherry-pick-kill"), deaths, 4)) {
    const where = `HOLDFAST_SEED=${seed}, operation ${dieAt} of ${calls}`;
    const { files, tree, after } = await begin(dieAt);
    const end = await cherryPick(dieAt);
    // The number of operations differs slightly between lives. One of the last may not happen, and then the cherry-pick
    // is done.
    if (end === "ended" && dieAt > calls - LAST_FEW) {
      expect([where, ours.files()]).toEqual([where, after]);
      continue;
    }
    expect([where, end]).toEqual([where, "SIGKILL"]);

    const { unfinishedRestore } = await ours.handle.summary();
    const checkpoints = await ours.handle.list();
    const saved = checkpoints.find((checkpoint) => checkpoint.tree === tree);
    seen.add(unfinishedRestore !== null ? "half" : saved === undefined ? "before" : "after");
    if (saved === undefined) expect([where, ours.files()]).toEqual([where, files]);
    if (unfinishedRestore !== null) expect([where, unfinishedRestore]).toEqual([where, saved?.id]);

    if (unfinishedRestore !== null && dieAt % 2 === 0) {
      await ours.handle.restore({ sequence: saved?.sequence ?? 0 });
      await ours.handle.close();
      expect([where, ours.files()]).toEqual([where, files]);
    }
    expect([where, await cherryPick(0)]).toEqual([where, "ended"]);
    expect([where, ours.files()]).toEqual([where, after]);
    const now = await ours.handle.summary();
    expect([where, now.unfinishedRestore]).toEqual([where, null]);
    const newest = await ours.handle.latest();
    expect([where, newest?.tree]).toEqual([where, (await (await ours.handle.workspace())?.currentFiles())?.tree]);
    const undo = (await ours.handle.list()).find((checkpoint) => checkpoint.tree === tree);
    expect([where, undo?.trigger]).toEqual([where, "before_risky"]);
  }
  if (isFullRun()) expect([...seen].toSorted()).toEqual(["after", "before", "half"]);
  for await (const event of holdfast.verify()) if (event.kind === "summary") expect(event.ok).toBe(true);
});
