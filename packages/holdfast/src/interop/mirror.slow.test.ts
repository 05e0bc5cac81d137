import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Trigger, emptyPlanes } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { readCrunchDirectory } from "@holdfast/formats/crunch-directory";
import { readSourceFiles } from "@holdfast/formats/source-files";
import { readYaml } from "@holdfast/formats/strict-yaml";
import { checkCrunchSettings, readCrunchTriggers } from "@holdfast/workflows/crunch/layout";
import { initialCrunchState } from "@holdfast/workflows/crunch/state";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import { openHoldfast } from "../open.ts";

/** A repository with a crunch run of issue 42, which is saved by hand here. */
async function scene(config?: string, layout: "own" | "seed" = "seed") {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "layout-")));
  const git = (...args: readonly string[]): string => execFileSync("git", args, { cwd: root, encoding: "utf8" });
  git("init", "-q");
  git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first");
  const holdfast = await openHoldfast({ cwd: root, loopLayout: { ...DEFAULT_LAYOUT, layout } });
  onTestFinished(async () => {
    await holdfast.close();
    rmSync(root, { recursive: true });
  });
  const configure = (text: string): void => {
    mkdirSync(join(root, ".claude"), { recursive: true });
    writeFileSync(join(root, ".claude/checkpoint-config.yaml"), text);
  };
  if (config !== undefined) configure(config);
  const handle = await holdfast.createRun({ id: "c", workflow: "crunch", work: { kind: "issue", number: 42 } });
  const mirror = await holdfast.formats.mirror({ run: "c", to: "crunch-yaml" });
  const directory = join(root, ".claude/crunch/42/checkpoints");
  let count = 0;
  const save = async (trigger: Trigger, stage = "enrich"): Promise<void> => {
    const { position } = emptyPlanes({ workflow: "crunch", stage });
    count += 1;
    const values = { ...(initialCrunchState as object as JsonObject), branch: `b${count}` };
    await handle.save({ trigger, name: `${count}`, planes: { position, context: { values, tokens: {} } } });
  };
  return {
    root,
    git,
    holdfast,
    mirror,
    directory,
    configure,
    save,
    files: () => (existsSync(directory) ? readdirSync(directory).filter((name) => name.startsWith("CP-")) : []),
    index: () => yamlOf(join(directory, "index.yaml")),
    /** Triggers and phases that the index lists, oldest first. */
    listed: (): readonly string[] => {
      const entries = yamlOf(join(directory, "index.yaml"))["checkpoints"] as readonly JsonObject[];
      return entries.map(({ trigger, phase }) => `${String(trigger)} ${String(phase)}`);
    },
  };
}

function yamlOf(path: string): JsonObject {
  const { value } = readYaml(readFileSync(path, "utf8"), { format: "crunch-yaml", file: path });
  return value as JsonObject;
}

describe("the directory of a crunch run", () => {
  test("is in the main worktree, from any directory, and git ignores it", async () => {
    const { root, git, save, mirror, directory, files, holdfast } = await scene();
    await save("stage");
    const other = `${root}-other`;
    git("worktree", "add", "-q", other);
    onTestFinished(() => rmSync(other, { recursive: true }));
    await using elsewhere = await openHoldfast({ cwd: other });
    expect((await elsewhere.formats.mirror({ run: "c", to: "crunch-yaml" })).root).toBe(root);
    await mirror.catchUp();
    expect(files()).toHaveLength(1);
    expect(git("status", "--porcelain")).toBe("");
    expect(readlinkSync(join(directory, "latest"))).toBe(files()[0]);
    expect(readCrunchTriggers(await (await holdfast.work.adapters()).projectRoot())).toMatchObject({
      agent_complete: { taken: false },
    });
  });

  test("a removed run takes its checkpoints along, and leaves those of other runs and tools", async () => {
    const { root, save, mirror, directory, files, index, holdfast } = await scene(
      "checkpoint: {enabled: true}\n",
      "own",
    );
    for (const trigger of ["stage", "manual", "manual"] as const) await save(trigger);
    await mirror.catchUp();
    const other = await holdfast.createRun({ id: "d", workflow: "crunch", work: { kind: "issue", number: 42 } });
    const { position } = emptyPlanes({ workflow: "crunch", stage: "docs" });
    const values = initialCrunchState as object as JsonObject;
    await other.save({ trigger: "manual", name: "d", planes: { position, context: { values, tokens: {} } } });
    await (await holdfast.formats.mirror({ run: "d", to: "crunch-yaml" })).catchUp();
    expect(files()).toHaveLength(4);
    const remove = async (run: string) =>
      await holdfast.removeRun(await holdfast.planRemoval(run), { by: "tester", force: true });
    // A checkpoint that cannot be read does not keep its run.
    expect(damageCheckpoints(join(root, ".git/holdfast"), [2])).toBe(1);
    await remove("c");
    expect(files()).toEqual([readlinkSync(join(directory, "latest"))]);
    expect(index()).toMatchObject({ total_checkpoints: 1, checkpoints: [{ phase: "docs" }] });
    writeFileSync(join(directory, "notes.txt"), "mine");
    await remove("d");
    expect(readdirSync(directory).toSorted()).toEqual([".gitignore", "index.yaml", "notes.txt"]);
    expect(existsSync(join(root, ".claude/checkpoint-config.yaml"))).toBe(true);
  });

  test("an existing one of a user is not hidden", async () => {
    const { save, mirror, directory } = await scene();
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, "notes.txt"), "mine");
    await save("stage");
    await mirror.catchUp();
    expect(existsSync(join(directory, ".gitignore"))).toBe(false);
  });

  test("defects 5 and 6: index, count and latest follow every change, and the trigger is in the file itself", async () => {
    const { save, mirror, directory, files, index, listed } = await scene();
    for (let round = 1; round <= 5; round += 1) {
      await save("batch_complete");
      await mirror.catchUp();
      const kept = Math.min(round, 3);
      expect(files()).toHaveLength(kept);
      expect(index()).toMatchObject({ issue_number: 42, total_checkpoints: kept });
      expect(`${String(index()["latest"])}.yaml`).toBe(readlinkSync(join(directory, "latest")));
      expect(yamlOf(join(directory, "latest"))).toMatchObject({ trigger: "batch_complete" });
    }
    const before = listed();
    unlinkSync(join(directory, "index.yaml"));
    await save("manual");
    await mirror.catchUp();
    expect(listed()).toEqual([...before, "manual enrich"]);
  });

  test("a link that leads out of the repository is not followed", async () => {
    const { root, save, mirror } = await scene();
    const outside = mkdtempSync(join(tmpdir(), "outside-"));
    onTestFinished(() => rmSync(outside, { recursive: true }));
    symlinkSync(outside, join(root, ".claude"));
    await save("stage");
    await expect(mirror.catchUp()).rejects.toMatchObject({ code: "IO_FAILED" });
    expect(readdirSync(outside)).toEqual([]);
  });

  test("partial files of a kill are removed by the next mirror, and no other hidden files", async () => {
    const { save, mirror, directory } = await scene();
    await save("stage");
    await mirror.catchUp();
    const left = join(directory, `.tmp-${"a".repeat(32)}-CP-x.yaml`);
    const fresh = join(directory, `.tmp-${"b".repeat(32)}-CP-y.yaml`);
    for (const path of [left, fresh, join(directory, ".tmp-mine")]) writeFileSync(path, "half");
    utimesSync(left, 1, 1);
    utimesSync(join(directory, ".tmp-mine"), 1, 1);
    await save("stage");
    await mirror.catchUp();
    expect([left, fresh, join(directory, ".tmp-mine")].map((path) => existsSync(path))).toEqual([false, true, true]);
  });
});

test("killed between an output and its document, the next write completes both", async () => {
  const { root, holdfast, mirror, directory, files } = await scene();
  const handle = await holdfast.run("c");
  const output = { agent: "a", action: "spec", node: "spec", phase: "enrich", completedAt: "", location: null };
  const issue = { number: 42, title: "T", body: "", labels: [], state: "open", updatedAt: "" };
  const deliver = async (summary: string): Promise<void> => {
    const values = { ...(initialCrunchState as object as JsonObject), issue, outputs: [{ ...output, summary }] };
    const { position } = emptyPlanes({ workflow: "crunch", stage: "enrich" });
    await handle.save({ trigger: "stage", name: summary, planes: { position, context: { values, tokens: {} } } });
  };
  const path = join(root, ".claude/crunch/42/outputs/enrich-spec.md");
  await deliver("One");
  // The write of the document fails: what is on the disk now is what a kill leaves behind.
  mkdirSync(join(root, ".claude/crunch/42"), { recursive: true });
  writeFileSync(directory, "in the way");
  await expect(mirror.catchUp()).rejects.toThrow();
  expect(readFileSync(path, "utf8")).toBe("One\n");
  unlinkSync(directory);
  await deliver("Two");
  await mirror.catchUp();
  expect(readFileSync(path, "utf8")).toBe("Two\n");
  expect(files()).toHaveLength(2);
  expect(yamlOf(join(directory, "latest"))).toMatchObject({
    agent_outputs: { a: { spec: { output_location: ".claude/crunch/42/outputs/enrich-spec.md" } } },
  });
  expect(execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" })).toBe("");
});

describe("defects 1 to 4: the rows of crunch's table of retention, in the directory", () => {
  const repeat = (trigger: Trigger, times: number, phase: string): readonly (readonly [Trigger, string])[] =>
    Array.from({ length: times }, () => [trigger, phase] as const);
  const config = "checkpoint: {checkpoint_triggers: {agent_complete: true}}\n";

  test.each<[string, Trigger, string, number, number]>([
    ["phase_transition: all (a milestone)", "stage", "phase_transition", 6, 6],
    ["batch_complete: the last 3 of each phase", "batch_complete", "batch_complete", 3, 3],
    ["agent_complete: the last 1 of each phase", "agent_complete", "agent_complete", 1, 1],
    ["conflict_resolved: all (an audit trail)", "conflict_resolved", "conflict_resolved", 6, 6],
    ["conflict_start: all, as its resolution", "conflict_start", "conflict_start", 6, 6],
    ["user_interrupt: the last 1", "interrupt", "user_interrupt", 0, 1],
    ["session_end: the last 1, as an interrupt", "session_end", "session_end", 0, 1],
    ["manual: all", "manual", "manual", 6, 6],
  ])("%s", async (_, trigger, word, first, second) => {
    const { save, mirror, listed } = await scene(config);
    for (const [one, phase] of [...repeat(trigger, 6, "enrich"), ...repeat(trigger, 6, "implementing")])
      await save(one, phase);
    // The newest checkpoint is always kept, so another one must be the newest.
    await save("stage", "docs");
    await mirror.catchUp();
    const kept = listed().filter((line) => line.startsWith(word));
    expect(kept.filter((line) => line.endsWith("enrich"))).toHaveLength(first);
    expect(kept.filter((line) => line.endsWith("implementing"))).toHaveLength(second);
  });

  test("-1 keeps all, and 0 none but the newest", async () => {
    const { save, mirror, listed } = await scene(
      "checkpoint: {retention: {batch_complete: -1, manual: 0, phase_transition: 0}}\n",
    );
    for (const [one, phase] of [...repeat("batch_complete", 5, "enrich"), ...repeat("manual", 3, "enrich")])
      await save(one, phase);
    await mirror.catchUp();
    expect(listed()).toEqual([...Array.from({ length: 5 }, () => "batch_complete enrich"), "manual enrich"]);
    await save("stage");
    await mirror.catchUp();
    expect(listed().slice(5)).toEqual(["phase_transition enrich"]);
  });

  test("phase_transition: 1 keeps one of each phase, also where a new iteration began with the phase", async () => {
    const { save, mirror, listed } = await scene("checkpoint: {retention: {phase_transition: 1}}\n");
    for (const [one, phase] of [
      ...repeat("stage", 3, "ready"),
      ...repeat("iteration", 2, "implementing"),
      ...repeat("stage", 1, "implementing"),
    ])
      await save(one, phase);
    await mirror.catchUp();
    expect(listed()).toEqual(["phase_transition ready", "phase_transition implementing"]);
  });
});

describe("checkpoint-config.yaml of a run that continues", () => {
  test("switches decide which checkpoints are shown, from the next one on", async () => {
    const { save, mirror, listed, configure } = await scene();
    for (const trigger of ["agent_complete", "conflict_start", "stage"] as const) await save(trigger);
    await mirror.catchUp();
    expect(listed()).toEqual(["conflict_start enrich", "phase_transition enrich"]);
    configure("checkpoint: {checkpoint_triggers: {conflict_events: false, agent_complete: true}}\n");
    for (const trigger of ["agent_complete", "conflict_start", "conflict_resolved"] as const) await save(trigger);
    await mirror.catchUp();
    expect(listed().slice(2)).toEqual(["agent_complete enrich"]);
    configure("checkpoint: {auto_checkpoint: false}\n");
    for (const trigger of ["batch_complete", "timer", "manual", "interrupt"] as const) await save(trigger);
    await mirror.catchUp();
    expect(listed().slice(3)).toEqual(["manual enrich", "user_interrupt enrich"]);
  });

  test("enabled: false writes nothing and reports it; max_size_mb leaves the newest that fit", async () => {
    const { save, mirror, files, listed, configure } = await scene("checkpoint: {enabled: false}\n");
    for (let count = 0; count < 5; count += 1) await save("manual");
    const { losses } = await mirror.catchUp();
    expect(losses).toContainEqual({ path: "checkpoints", why: expect.stringContaining("enabled: false") });
    expect(files()).toEqual([]);
    // One of these documents has about 1,300 bytes.
    configure("checkpoint: {storage: {max_size_mb: 0.003}}\n");
    for (let count = 0; count < 5; count += 1) await save("manual");
    const report = await mirror.catchUp();
    expect(report.losses).toContainEqual({ path: "checkpoints", why: expect.stringContaining("max_size_mb") });
    expect(files()).toHaveLength(2);
    expect(listed()).toHaveLength(2);
  });

  test("an invalid file is an error with its line, existing files stay, and with a valid one the mirror catches up", async () => {
    const { save, mirror, files, configure, holdfast } = await scene();
    await save("stage");
    await mirror.catchUp();
    const before = files();
    configure("checkpoint:\n  retention:\n    manual: many\n");
    await save("manual");
    const wrong = expect.objectContaining({ code: "FORMAT_INVALID", data: expect.objectContaining({ line: 3 }) });
    await expect(mirror.catchUp()).rejects.toEqual(wrong);
    const root = await (await holdfast.work.adapters()).projectRoot();
    // Nothing may be lost because of it: the default triggers apply meanwhile.
    expect(readCrunchTriggers(root)).toMatchObject({ batch_complete: { taken: true } });
    expect(() => checkCrunchSettings(root)).toThrow(
      expect.objectContaining({
        code: "CONFIG_INVALID",
        message:
          '.claude/checkpoint-config.yaml:3:13: at /checkpoint/retention/manual there is "many" where a number belongs',
      }),
    );
    expect(files()).toEqual(before);
    configure("checkpoint:\n");
    await mirror.catchUp();
    expect(files()).toHaveLength(2);
  });
});

test("read while it is written, it is always complete", async () => {
  const { save, mirror, directory, files } = await scene();
  await save("stage");
  await mirror.catchUp();
  const over = new AbortController();
  let looks = 0;
  const reading = (async () => {
    while (!over.signal.aborted) {
      const source = readSourceFiles(directory, directory);
      if (source.kind !== "directory") throw new Error("no directory");
      const read = readCrunchDirectory({ files: source.files, link: source.link });
      expect(read.broken).toEqual([]);
      // The index may be a step behind the files, never ahead of them.
      const names = new Set(read.checkpoints.map(({ name }) => name));
      expect(names.has(source.link ?? "")).toBe(true);
      expect(yamlOf(join(directory, "latest"))).toMatchObject({ recovery_info: { can_resume: true } });
      looks += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  for (let round = 0; round < 12; round += 1) {
    await save(round % 2 === 0 ? "batch_complete" : "timer");
    await mirror.catchUp();
  }
  over.abort();
  await reading;
  expect(looks).toBeGreaterThan(0);
  expect(files().length).toBeLessThan(13);
});

test("crunch's own directory, imported and mirrored into itself, is unchanged and imports as the same run", async () => {
  const { root, holdfast } = await scene();
  const directory = join(root, ".claude/crunch/42/checkpoints");
  mkdirSync(directory, { recursive: true });
  const golden = join(import.meta.dirname, "../../../formats/golden-directory/42");
  for (const name of readdirSync(golden).filter((one) => /^(?:CP-.*|index)\.yaml$/.test(one)))
    writeFileSync(join(directory, name), readFileSync(join(golden, name)));
  const all = (): object =>
    Object.fromEntries(readdirSync(directory).map((name) => [name, readFileSync(join(directory, name), "utf8")]));
  const before = all();
  const [plan] = await holdfast.formats.planImport({ paths: [directory] });
  if (plan === undefined) return expect.unreachable();
  await holdfast.formats.applyImport(plan);
  await (await holdfast.formats.mirror({ run: plan.run, to: "crunch-yaml" })).catchUp();
  // The index and `latest` may be made true; no checkpoint is another one.
  expect(all()).toMatchObject(Object.fromEntries(Object.entries(before).filter(([name]) => name.startsWith("CP-"))));
  expect(await holdfast.formats.planImport({ paths: [directory] })).toMatchObject([{ run: plan.run, before: "whole" }]);
});
