import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openHoldfast } from "../src/open.ts";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Position } from "@holdfast/core/position";
import { type CherryPickScene, createCherryPickRuns } from "@holdfast/test-support/core/cherry-pick-scene";

const start = (): Promise<CherryPickScene> =>
  createCherryPickRuns({ "src/a.txt": "one\n", "src/b.txt": "two\n", "keep.txt": "kept\n", ".gitignore": "*.log\n" });

const refusal = (code: string, ...words: readonly string[]) =>
  expect.objectContaining({ code, message: expect.stringMatching(new RegExp(words.join(".*"))) });

async function positionWith(
  scene: CherryPickScene,
  stageAttempt: Partial<Position["stageAttempt"]>,
): Promise<Position> {
  const { position } = (await scene.ours.handle.latest())?.planes ?? emptyPlanes();
  return { ...position, stage: "work", stageAttempt: { ...position.stageAttempt, number: 1, ...stageAttempt } };
}

test("content, modes, links, binaries, odd names and deletions are copied, and only the requested paths", async () => {
  const scene = await start();
  const { ours, theirs } = scene;
  theirs.write("src/a.txt", "theirs\n");
  rmSync(join(theirs.root, "src/b.txt"));
  writeFileSync(join(theirs.root, "src/bin"), Buffer.from([0, 255, 1, 10, 13]));
  theirs.write("src/run.sh", "#!/bin/sh\n");
  chmodSync(join(theirs.root, "src/run.sh"), 0o755);
  symlinkSync("a.txt", join(theirs.root, "src/link"));
  theirs.write("src/odd\tname", "odd\n");
  theirs.write("keep.txt", "not this\n");
  await theirs.handle.save();
  const before = ours.files();

  const report = await scene.cherryPick(["src"]);
  expect([report.written, report.removed]).toEqual([5, 1]);
  const { "keep.txt": _theirs, ...taken } = theirs.files();
  const { "keep.txt": kept, ...got } = ours.files();
  expect(got).toEqual(taken);
  expect(kept).toBe(before["keep.txt"]);
  expect(lstatSync(join(ours.root, "src/run.sh")).mode & 0o111).not.toBe(0);

  expect(report.undo.trigger).toBe("before_risky");
  expect(report.checkpoint).toMatchObject({ sequence: 3, name: "cherry-pick from theirs@2" });
  expect((await ours.handle.latest())?.planes.context.values).toEqual({ of: "ours" });
  const log = await Array.fromAsync(ours.handle.log());
  expect(log.map(({ kind, body }) => (kind === "restore.started" ? body : null)).filter(Boolean)).toEqual([
    { target: "ours@2", paths: ["src"], cherryPick: "theirs@2" },
  ]);
  expect(log.find(({ kind }) => kind === "note")?.body).toEqual({
    text: "Took src from theirs@2; ours@2 is from before",
  });
  expect((await ours.handle.summary()).unfinishedRestore).toBeNull();
  expect((await scene.plan("src")).files.changes).toEqual([]);

  await ours.handle.restore({ sequence: report.undo.sequence });
  expect(ours.files()).toEqual(before);
});

test("patterns match on both sides, so that a file that is missing there is removed here", async () => {
  const scene = await start();
  rmSync(join(scene.theirs.root, "src/b.txt"));
  scene.theirs.write("src/deep/c.txt", "three\n");
  scene.theirs.write("src/deep/c.md", "no\n");
  await scene.theirs.handle.save();
  const plan = await scene.plan("**/*.txt");
  expect(plan.files.changes.map(({ kind, path }) => `${kind} ${path}`).toSorted()).toEqual([
    "create src/deep/c.txt",
    "remove src/b.txt",
  ]);
  await expect(scene.plan(":(literal)*")).rejects.toEqual(refusal("USAGE", "\\* is neither"));
  await expect(scene.plan("lib/*")).rejects.toEqual(refusal("USAGE", "No file on either side is like"));
  await expect(scene.plan("nowhere.txt")).rejects.toEqual(refusal("USAGE", "nowhere.txt is neither"));
});

describe("refused, with nothing changed", () => {
  async function refuses(scene: CherryPickScene, paths: readonly string[], why: unknown): Promise<void> {
    const before = scene.ours.files();
    const saved = (await scene.ours.handle.summary()).checkpoints;
    await expect(scene.cherryPick(paths)).rejects.toEqual(why);
    expect(scene.ours.files()).toEqual(before);
    expect(await scene.ours.handle.summary()).toMatchObject({ checkpoints: saved, unfinishedRestore: null });
  }

  test("edits that no checkpoint holds; forced, they are saved first", async () => {
    const scene = await start();
    scene.theirs.write("src/a.txt", "theirs\n");
    await scene.theirs.handle.save();
    scene.ours.write("src/a.txt", "by a person\n");
    scene.ours.write("keep.txt", "elsewhere\n");
    await refuses(scene, ["src"], refusal("RESTORE_REFUSED", "src/a.txt", "changed since its newest checkpoint"));
    const { undo } = await scene.cherryPick(["src"], { force: true });
    expect(scene.ours.files()["src/a.txt"]).toBe(scene.theirs.files()["src/a.txt"]);
    await scene.ours.handle.restore({ sequence: undo.sequence });
    expect(readFileSync(join(scene.ours.root, "src/a.txt"), "utf8")).toBe("by a person\n");
  });

  test("an edit that equals the picked content is not one", async () => {
    const scene = await start();
    for (const side of [scene.theirs, scene.ours]) side.write("src/a.txt", "theirs\n");
    scene.theirs.write("src/b.txt", "theirs\n");
    await scene.theirs.handle.save();
    expect(await scene.cherryPick(["src"])).toMatchObject({ written: 1 });
  });

  test("an ignored file in the way", async () => {
    const scene = await start();
    scene.theirs.write("x.log", "tracked there\n");
    scene.repo.git("-C", scene.theirs.root, "add", "-f", "x.log");
    await scene.theirs.handle.save();
    scene.ours.write("x.log", "a person's\n");
    await refuses(scene, ["x.log"], refusal("RESTORE_REFUSED", "x.log", "no checkpoint holds"));
  });

  test("a folder that is a link here is not written through", async () => {
    const scene = await start();
    const outside = join(scene.repo.root, "../outside");
    mkdirSync(outside);
    scene.theirs.write("lib/x.txt", "x\n");
    await scene.theirs.handle.save();
    symlinkSync(outside, join(scene.ours.root, "lib"));
    await scene.ours.handle.save();
    await refuses(scene, ["lib/x.txt"], refusal("RESTORE_REFUSED", "lib"));
    expect(existsSync(join(outside, "x.txt"))).toBe(false);
  });

  test("a link that leads out of the worktree; forced, it is copied as a link", async () => {
    const scene = await start();
    symlinkSync("../../secret", join(scene.theirs.root, "src/out"));
    symlinkSync("../keep.txt", join(scene.theirs.root, "src/in"));
    await scene.theirs.handle.save();
    await refuses(scene, ["src"], refusal("RESTORE_REFUSED", "src/out", "leads out", "../../secret"));
    expect(await scene.cherryPick(["src"], { force: true })).toMatchObject({ written: 2 });
  });

  test("paths that leave the worktree, or enter a git directory", async () => {
    const scene = await start();
    for (const path of ["../x", ".git/config", "src/../../x", "a/.GIT/hooks/x", "/etc/passwd"])
      await expect(scene.plan(path), path).rejects.toMatchObject({ code: "USAGE" });
  });

  test("a run in the middle of a step, whose files are put back when it is resumed", async () => {
    const scene = await start();
    scene.theirs.write("src/a.txt", "theirs\n");
    await scene.theirs.handle.save();
    const running = { edit: { files: true, estimate: null, base: 1 } };
    await scene.ours.handle.save({ planes: { position: await positionWith(scene, { running }) } });
    await refuses(scene, ["src"], refusal("RESTORE_REFUSED", "ours stopped in the middle of edit"));
  });

  test("a restore that did not finish, and another cherry-pick that did not", async () => {
    const scene = await start();
    scene.theirs.write("src/a.txt", "theirs\n");
    await scene.theirs.handle.save();
    const { store } = scene.holdfast;
    const begin = async (target: string, cherryPick?: string): Promise<void> => {
      await scene.ours.handle.close();
      const lease = await store.takeLease({ run: "ours", label: "test" });
      const body = { target, paths: ["src"], ...(cherryPick === undefined ? {} : { cherryPick }) };
      const planes = (await store.latest("ours"))?.planes ?? emptyPlanes();
      await store.commit({
        lease,
        entries: [{ kind: "restore.started", body }],
        checkpoint: { trigger: "before_risky", planes },
      });
      await store.releaseLease(lease);
    };
    await begin("ours@1");
    await expect(scene.plan("src")).rejects.toEqual(refusal("RESTORE_REFUSED", "A restore of ours@1 began"));
    await begin("ours@3", "other@4");
    await expect(scene.plan("src")).rejects.toEqual(refusal("RESTORE_REFUSED", "Another cherry-pick", "other@4"));
  });

  test("while another process holds the run", async () => {
    const scene = await start();
    scene.theirs.write("src/a.txt", "theirs\n");
    await scene.theirs.handle.save();
    await scene.ours.handle.close();
    const lease = await scene.holdfast.store.takeLease({ run: "ours", label: "a workflow" });
    const other = await openHoldfast({ cwd: scene.repo.root });
    const source = await scene.theirs.handle.latest();
    if (source === undefined) throw new Error("nothing was saved");
    const handle = await other.run("ours");
    const plan = await handle.planCherryPick({ source, paths: ["src"] });
    await expect(handle.applyCherryPick(plan)).rejects.toMatchObject({ code: "LEASE_HELD" });
    await scene.holdfast.store.releaseLease(lease);
    await other.close();
  });
});

test("a call that resumes its session is not restored to before the cherry-pick", async () => {
  const scene = await start();
  scene.theirs.write("src/a.txt", "theirs\n");
  await scene.theirs.handle.save();
  const running = { ask: { files: true, estimate: null, base: 1 }, beside: { files: false, estimate: null, base: 1 } };
  const position = await positionWith(scene, { running, sessions: { ask: "s1" } });
  await scene.ours.handle.save({ planes: { position } });
  const { checkpoint } = await scene.cherryPick(["src"]);
  const { stageAttempt } = (await scene.ours.handle.get(checkpoint.sequence)).planes.position;
  expect([stageAttempt.running?.["ask"]?.base, stageAttempt.running?.["beside"]?.base]).toEqual([
    checkpoint.sequence,
    1,
  ]);
});
