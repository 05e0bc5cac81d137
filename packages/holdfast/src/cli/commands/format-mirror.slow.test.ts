import { existsSync, lstatSync, readFileSync } from "node:fs";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test as sequentialTest } from "vitest";
import { parse } from "yaml";
import { type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";

const test = sequentialTest.concurrent;
const golden = fileURLToPath(new URL("../../../../formats/golden/", import.meta.url));

const work = workSuite();

/** A run with `count` manual checkpoints. Without an issue, crunch keeps its files under `none`. */
async function runOf(place: WorkPlace, count: number): Promise<void> {
  for (let at = 1; at <= count; at += 1) await place.run("checkpoint", "--run", "mine", "--name", `number ${at}`);
}

async function configure(place: WorkPlace, yaml: string): Promise<void> {
  await mkdir(join(place.clone, ".claude"), { recursive: true });
  await writeFile(join(place.clone, ".claude/checkpoint-config.yaml"), yaml);
}

const mirrorCrunch = (place: WorkPlace) =>
  place.json("format", "mirror", "mine", "--to", "crunch-yaml", "--directory", ".", "--once");

describe("crunch's own configuration in its directory", () => {
  test("retention removes files from the mirror, the index stays correct, and they are not written again", async () => {
    const place = await work.begin();
    await configure(place, "checkpoint: {retention: {manual: 2}, storage: {location: 'cp/{issue}'}}\n");
    await runOf(place, 2);
    const first = await mirrorCrunch(place);
    expect(first.removed).toEqual([]);
    await runOf(place, 2);
    const second = await mirrorCrunch(place);
    const directory = join(place.clone, "cp/none");
    const names = (await readdir(directory)).filter((name) => name.startsWith("CP-"));
    expect(names).toHaveLength(2);
    expect(second.removed).toHaveLength(2);
    expect(second.losses).toContainEqual(expect.objectContaining({ path: "checkpoints" }));
    const index = parse(await readFile(join(directory, "index.yaml"), "utf8"));
    expect(index).toMatchObject({ total_checkpoints: 2 });
    // In the order of creation, which names within one second do not show.
    const listed = index.checkpoints.map((entry: { checkpoint_id: string }) => `${entry.checkpoint_id}.yaml`);
    expect(listed.toSorted()).toEqual(names.toSorted());
    expect(await mirrorCrunch(place)).toMatchObject({ written: [], removed: [] });
    expect(await place.json("format", "import", "cp/none", "--dry-run")).toMatchObject({ before: "none", broken: [] });
  });

  test("-1 keeps all; files of other tools stay", async () => {
    const place = await work.begin();
    await configure(place, "checkpoint: {retention: {manual: 0, phase_transition: 0}, storage: {location: cp}}\n");
    await mkdir(join(place.clone, "cp"));
    const theirs = "CP-enrich-20250114-b4c5.yaml";
    await writeFile(join(place.clone, "cp", theirs), await readFile(join(golden, "crunch-yaml", theirs)));
    await runOf(place, 3);
    await mirrorCrunch(place);
    const names = (await readdir(join(place.clone, "cp"))).filter((name) => name.startsWith("CP-"));
    expect(names).toHaveLength(2);
    expect(names).toContain(theirs);
    await configure(place, "checkpoint: {retention: {manual: -1}, storage: {location: cp}}\n");
    await mirrorCrunch(place);
    expect((await readdir(join(place.clone, "cp"))).filter((name) => name.startsWith("CP-"))).toHaveLength(4);
  });

  test("compress writes gzip, which is read back", async () => {
    const place = await work.begin();
    await configure(place, "checkpoint: {storage: {compress: true}}\n");
    await runOf(place, 1);
    const { written } = await mirrorCrunch(place);
    expect(written[0]).toMatch(/CP-[^/]*\.yaml\.gz$/);
    expect(parse(gunzipSync(await readFile(written[0])).toString())).toMatchObject({ version: "1.0" });
    const directory = ".claude/crunch/none/checkpoints";
    expect((await place.run("format", "validate", directory)).status).toBe(0);
    expect(await place.json("format", "import", directory, "--dry-run")).toMatchObject({ before: "none", broken: [] });
    expect(await mirrorCrunch(place)).toMatchObject({ written: [] });
  });

  test("max_size_mb: the oldest are removed; a larger single one is reported as a loss by a mirror and refused by an export", async () => {
    const place = await work.begin();
    await runOf(place, 3);
    await configure(place, "checkpoint: {storage: {max_size_mb: 0.001}}\n");
    await mirrorCrunch(place);
    const directory = join(place.clone, ".claude/crunch/none/checkpoints");
    expect((await readdir(directory)).filter((name) => name.startsWith("CP-")).length).toBeLessThan(3);
    await configure(place, "checkpoint: {storage: {max_size_mb: 0.0001, location: small}}\n");
    const { written, losses } = await mirrorCrunch(place);
    expect(written.filter((path: string) => path.includes("CP-"))).toEqual([]);
    expect(losses).toContainEqual(expect.objectContaining({ why: expect.stringContaining("max_size_mb") }));
    const refused = await place.run("format", "export", "mine", "--to", "crunch-yaml", "-o", "small/");
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining("max_size_mb") });
    expect((await place.run("format", "export", "mine", "--to", "crunch-yaml", "-o", "elsewhere/")).status).toBe(0);
  });

  test("switched off: the mirror reports it and writes nothing, an export there is refused", async () => {
    const place = await work.begin();
    await runOf(place, 1);
    await configure(place, "checkpoint: {enabled: false, colour: red}\n");
    const { written, losses } = await mirrorCrunch(place);
    expect(written).toEqual([]);
    expect(losses.map(({ path }: { path: string }) => path)).toEqual([
      "checkpoint-config.yaml#/checkpoint/colour",
      "checkpoints",
    ]);
    const there = ".claude/crunch/none/checkpoints/";
    expect(await place.run("format", "export", "mine", "--to", "crunch-yaml", "-o", there)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("enabled: false"),
    });
    expect(existsSync(join(place.clone, there))).toBe(false);
  });
});

const LEAST = JSON.parse(readFileSync(join(golden, "loop-json/least.json"), "utf8"));

/** As the tool writes it; the time makes it another one. */
function loopDocument(
  loop: string | null,
  more: { iteration: number; minute: number; workflow?: string; type?: string },
): object {
  const { iteration, minute } = more;
  return {
    checkpoint_id: `cp-${loop ?? more.workflow}-${minute}`,
    workflow_id: more.workflow ?? loop,
    loop_id: loop,
    workflow_type: more.type ?? "ralph_loop",
    created_at: `2026-02-02T21:${String(minute).padStart(2, "0")}:00Z`,
    trigger: "iteration",
    state: { ...LEAST.state, iteration: { current: iteration } },
    metadata: { compression: "gzip", schema_version: "2.0" },
  };
}

async function putLoop(place: WorkPlace, path: string, document: object): Promise<void> {
  const at = join(place.clone, ".aiwg", path);
  await mkdir(join(at, ".."), { recursive: true });
  await writeFile(at, gzipSync(JSON.stringify(document, null, 2)));
}

describe("loops", () => {
  test("a repository with several loops, and with legacy ones: each becomes a run", async () => {
    const place = await work.begin();
    for (const [loop, iteration] of [
      ["ralph-a-00000001", 1],
      ["ralph-a-00000001", 2],
      ["ralph-b-00000002", 1],
    ] as const)
      await putLoop(
        place,
        `ralph/loops/${loop}/checkpoints/iteration-00${iteration}.json.gz`,
        loopDocument(loop, { iteration, minute: iteration }),
      );
    for (const workflow of ["old-one", "old-two"])
      await putLoop(
        place,
        `checkpoints/${workflow}-2026-02-02T21-09-00Z-iteration.json.gz`,
        loopDocument(null, { iteration: 1, minute: 9, workflow }),
      );
    const rows = JSON.parse((await place.run("--json", "format", "validate", ".")).stdout).files;
    expect(rows).toHaveLength(5);
    expect(rows.every((row: { ok: boolean; format: string }) => row.ok && row.format === "loop-json")).toBe(true);
    const some = JSON.parse((await place.run("--json", "format", "validate", ".aiwg/ralph/loops")).stdout);
    expect(some.files).toHaveLength(3);
    const named = await place.run("format", "import", ".aiwg", "--run", "one");
    expect(named).toMatchObject({ status: 2, stderr: expect.stringContaining("4 loops") });
    const lines = (await place.run("--json", "format", "import", ".")).stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => line.checkpoints.length)).toEqual([2, 1, 1, 1]);
    expect((await place.json("list")).runs).toHaveLength(4);
    const again = await place.run("format", "import", ".");
    expect(again.stdout.match(/Nothing to do/g)).toHaveLength(4);
    const legacy = await place.run("format", "import", ".aiwg/checkpoints", "--dry-run");
    expect(legacy.stdout.match(/already imported/g)).toHaveLength(2);
  });

  test("the mirror of a loop keeps every checkpoint of an iteration, and files that the tool itself wrote meanwhile", async () => {
    const place = await work.begin();
    const loop = "ralph-a-00000001";
    const directory = `ralph/loops/${loop}/checkpoints`;
    // A type that the ralph workflow does not continue: the mirror writes single documents.
    const type = "agent_task";
    await putLoop(place, `${directory}/iteration-001.json.gz`, loopDocument(loop, { iteration: 1, minute: 1, type }));
    const { run } = await place.json("format", "import", `.aiwg/ralph/loops/${loop}`);
    const mirror = () => place.json("format", "mirror", run, "--to", "loop-json", "--directory", ".", "--once");
    await mirror();
    await place.run("checkpoint", "--run", run, "--name", "by hand");
    await mirror();
    await place.run("checkpoint", "--run", run, "--name", "by hand again");
    // The other tool continues by itself in the same iteration.
    await putLoop(place, `${directory}/iteration-001.json.gz`, loopDocument(loop, { iteration: 1, minute: 59, type }));
    await mirror();
    const names = await readdir(join(place.clone, ".aiwg", directory));
    expect(names.filter((name) => name.startsWith("iteration-"))).toEqual(["iteration-001.json.gz"]);
    expect(names).toHaveLength(4);
    expect((await place.run("format", "validate", ".")).status).toBe(0);
    expect(await mirror()).toMatchObject({ written: [] });
    await writeFile(join(place.clone, ".aiwg", directory, "iteration-001.json.gz"), "not gzip");
    await place.run("checkpoint", "--run", run, "--name", "third");
    const refused = await place.run("format", "mirror", run, "--to", "loop-json", "--directory", ".", "--once");
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining("Move it away") });
    expect(lstatSync(join(place.clone, ".aiwg", directory, "iteration-001.json.gz")).size).toBe(8);
  });
});
