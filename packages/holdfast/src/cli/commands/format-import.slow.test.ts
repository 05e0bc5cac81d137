import { execFile, execFileSync } from "node:child_process";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { cp, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { describe, expect, test as sequentialTest } from "vitest";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { GOOD, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";

const test = sequentialTest.concurrent;
const golden = fileURLToPath(new URL("../../../../formats/golden/", import.meta.url));
const seed = join(golden, "impl-json/seed-example.json");
const REVIEW = {
  when: { role: "review" },
  reply: JSON.stringify({
    scores: { faithful: 95, style: 95, docs: 95, cornerCases: 95 },
    overall_score: 95,
    findings: [],
    suggestions: [],
  }),
};

const work = workSuite();

/** A document of the other tool at this stage of issue 1, with unknown fields. */
async function implFile(place: { readonly clone: string }, state: object): Promise<string> {
  const path = join(place.clone, "impl-checkpoint.json");
  const document = {
    version: 1,
    timestamp: "2026-01-02T03:04:05+00:00",
    state: {
      issue_no: 1,
      current_stage: "impl",
      iteration: 2,
      worktree: "/nowhere",
      plan_file: null,
      last_feedback: "Add tests",
      last_score: 60,
      history: [
        { stage: "impl", iteration: 1, timestamp: "2026-01-02T03:00:00+00:00", result: "success", score: null },
        { stage: "review", iteration: 1, timestamp: "2026-01-02T03:02:00+00:00", result: "retry", score: 60 },
      ],
      their_own: { keep: ["this"] },
      ...state,
    },
  };
  await writeFile(path, `${JSON.stringify(document, null, 2)}\n`);
  return path;
}

describe("import and export", () => {
  test("shows a plan, creates a run, does nothing the second time, and exports the same bytes", async () => {
    const place = await work.begin();
    const shown = await place.run("format", "import", seed, "--dry-run");
    expect(shown.stdout).toContain("Would import 1 checkpoint of impl-json as issue-42-");
    expect(existsSync(join(place.clone, ".git/holdfast"))).toBe(false);
    const made = await place.json("format", "import", seed, "--run", "theirs");
    expect(made).toMatchObject({ run: "theirs", format: "impl-json", changed: true, before: "none" });
    expect(await place.json("format", "import", seed)).toMatchObject({
      run: "theirs",
      changed: false,
      before: "whole",
    });
    expect(await place.json("list")).toMatchObject({
      runs: [{ id: "theirs", checkpoints: 1, status: { kind: "paused" } }],
    });
    const exported = await place.run("format", "export", "theirs", "--to", "impl-json");
    expect(exported.stdout.trim()).toBe(JSON.stringify(JSON.parse(await readFile(seed, "utf8")), null, 2));
    expect(exported.stderr).toBe("");
    expect(await place.run("format", "import", seed, "--run", "theirs", "--dry-run")).toMatchObject({ status: 0 });
    const other = join(golden, "impl-json/least.json");
    expect(await place.run("format", "import", other, "--run", "theirs")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("exists already"),
    });
  });

  test("compressed files are read, bombs and unknown files are refused with their code and nothing is created", async () => {
    const place = await work.begin();
    const packed = join(place.clone, "packed.json.gz");
    await writeFile(packed, gzipSync(await readFile(seed)));
    expect(await place.json("format", "import", packed)).toMatchObject({ format: "impl-json", changed: true });
    const odd = join(place.clone, "odd.json");
    await writeFile(odd, '{"a": 1}');
    const unknown = await place.run("--json", "format", "import", odd, "--run", "odd");
    expect(unknown.status).toBe(4);
    expect(JSON.parse(unknown.stderr)).toMatchObject({ error: { code: "FORMAT_UNKNOWN" } });
    const cut = join(place.clone, "cut.json");
    await writeFile(cut, (await readFile(seed)).subarray(0, 200));
    expect((await place.run("format", "import", cut, "--format", "impl-json", "--run", "cut")).status).toBe(6);
    const fifo = join(place.clone, "fifo");
    execFileSync("mkfifo", [fifo]);
    expect((await place.run("format", "import", fifo)).status).toBe(6);
    expect((await place.json("list")).runs).toHaveLength(1);
    const rows = await place.run("--json", "format", "validate", seed, cut, odd, packed, join(place.clone, "absent"));
    expect(rows.status).toBe(6);
    expect(JSON.parse(rows.stdout).files).toMatchObject([
      { file: seed, format: "impl-json", ok: true, code: null, message: null },
      { file: cut, ok: false },
      { file: odd, format: null, ok: false, code: "FORMAT_UNKNOWN" },
      { file: packed, ok: true },
      { ok: false, code: "USAGE" },
    ]);
    expect((await place.run("format", "validate", seed, packed)).status).toBe(0);
  });

  test("a list of versions is exported completely, to stdout and to a file; RUN@2 and a directory have single ones", async () => {
    const place = await work.begin();
    const source = join(golden, "context-store/task-1-all.json");
    const documents = JSON.parse(await readFile(source, "utf8")).toReversed();
    const { run } = await place.json("format", "import", source);
    expect(run).toBe("task-1");
    const whole = await place.run("format", "export", run, "--to", "context-store");
    expect(whole.stderr).toBe("");
    expect(JSON.parse(whole.stdout)).toEqual(documents);
    expect(JSON.parse((await place.run("format", "export", `${run}@2`, "--to", "context-store")).stdout)).toEqual(
      documents[1],
    );
    const file = join(place.clone, "versions.json");
    expect(await place.json("format", "export", run, "--to", "context-store", "-o", file)).toMatchObject({
      path: "task-1.json",
      document: null,
    });
    expect(await place.json("format", "validate", file)).toMatchObject({ files: [{ ok: true, checkpoints: 2 }] });
    await place.run("format", "export", run, "--to", "context-store", "-o", `${place.clone}/versions/`);
    expect((await readdir(join(place.clone, "versions"))).toSorted()).toEqual(["task-1-1.json", "task-1-2.json"]);
    expect(JSON.parse((await place.run("format", "convert", source, "--to", "context-store")).stdout)).toEqual(
      documents,
    );
  });

  test("a crunch directory is imported as one run and exported with index and latest", async () => {
    const place = await work.begin();
    const theirs = join(place.clone, "theirs");
    await mkdir(theirs);
    for (const name of ["CP-20250114-a3f2.json", "CP-before-batch-1.yaml", "CP-enrich-20250114-b4c5.yaml"])
      await cp(join(golden, "crunch-yaml", name), join(theirs, name));
    const shown = await place.run("format", "import", theirs, "--dry-run");
    if (shown.status !== 0) expect(shown.stderr).toContain("belong to several runs");
    const one = join(theirs, "CP-enrich-20250114-b4c5.yaml");
    const { run } = await place.json("format", "import", one);
    const out = await place.json("format", "export", run, "--to", "crunch-yaml", "--output", "out/");
    expect(out.document).toBeNull();
    const names = await readdir(join(place.clone, "out"));
    expect(names.toSorted()).toEqual(["CP-enrich-20250114-b4c5.yaml", "index.yaml", "latest"]);
    expect(lstatSync(join(place.clone, "out/latest")).isSymbolicLink()).toBe(true);
    expect(await place.json("format", "export", run, "--to", "crunch-yaml", "--output", "out/")).toMatchObject({
      written: [],
    });
    expect(await place.json("format", "import", "out")).toMatchObject({ run, changed: false });
    const resumed = await place.run("resume", run);
    expect(resumed.status).toBe(2);
    expect(resumed.stderr).toContain("names no agent that could continue the work");
    const converted = await place.run("format", "convert", one, "--to", "loop-json", "-o", "loop.json.gz");
    expect(converted.status, converted.stderr).toBe(0);
    expect(converted.stderr).toContain("loop-json cannot represent");
    expect((await place.run("format", "validate", "loop.json.gz", "--format", "loop-json")).status).toBe(0);
  });

  test("the published schema", async () => {
    const place = await work.begin();
    expect(await place.json("format", "schema", "loop-json")).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
    });
    expect((await place.run("format", "schema")).stdout).toBe(
      "config\nloop-json\nloop-registry\nloop-state\nreflection-memory\natif\n",
    );
    expect((await place.run("format", "schema", "nothing")).status).toBe(2);
  });
});

describe("continuing an imported run", () => {
  test("starts at its stage, with its history and counters, in the worktree that the document names", async () => {
    const place = await work.begin();
    const tree = join(place.clone, "..", "their-tree");
    await place.git("worktree", "add", "-q", "-b", "issue-1", tree);
    await writeFile(join(tree, "answer.txt"), "41\n");
    const file = await implFile(place, { worktree: tree });
    const { run, worktree } = await place.json("format", "import", file);
    expect(worktree).toBe(tree);
    const planned = await place.run("resume", run, "--dry-run", "--agent", await place.agent([GOOD, REVIEW]));
    expect(planned.stdout, planned.stderr).toContain("Continue with");
    expect(planned.stdout).not.toContain("never pushed");
    const resumed = await place.run("resume", run, "--agent", await place.agent([GOOD, REVIEW]));
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    const status = await place.json("status", run);
    expect(status).toMatchObject({ run: { status: { kind: "done" }, worktree: tree, branch: "issue-1" } });
    const back = JSON.parse((await place.run("format", "export", run, "--to", "impl-json")).stdout);
    expect(back.state).toMatchObject({
      current_stage: "done",
      iteration: 2,
      their_own: { keep: ["this"] },
      pr_number: "2",
    });
    expect(back.state.history.slice(0, 2)).toMatchObject([{ result: "success" }, { result: "retry", score: 60 }]);
    expect(back.state.history.length).toBeGreaterThan(2);
    expect((await place.json("show", `${run}@latest`)).checkpoint.planes.position.attempts).toMatchObject({
      review: 1,
    });
  });

  const STAGES = ["impl", "review", "simp", "pr", "rebase"].map((name) => ({ name }));

  sequentialTest.for(sampleBySeed(STAGES, 2))(
    "the seed's own example, at $name, continues to the end, and its export is read again",
    async ({ name }) => {
      const place = await work.begin();
      const tree = join(place.clone, "..", "their-tree");
      await place.git("worktree", "add", "-q", "-b", "issue-1", tree);
      await writeFile(join(tree, "answer.txt"), "42\n");
      // The seed commits at the end of each iteration.
      await place.git("-C", tree, "add", "answer.txt");
      await place.git("-C", tree, "commit", "-q", "-m", "Answer");
      const theirs = JSON.parse(await readFile(seed, "utf8"));
      const state = { ...theirs.state, issue_no: 1, worktree: tree, plan_file: null, current_stage: name };
      const file = join(place.clone, "impl-checkpoint.json");
      await writeFile(file, JSON.stringify({ ...theirs, version: name === "simp" ? 2 : 1, state }));
      const { run } = await place.json("format", "import", file);
      const plain = { when: { role: "simplify" }, reply: "Nothing to simplify." };
      const resumed = await place.run("resume", run, "--agent", await place.agent([GOOD, REVIEW, plain]));
      expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
      const exported = await place.run("format", "export", run, "--to", "impl-json");
      const back = JSON.parse(exported.stdout);
      expect(back.state).toMatchObject({ issue_no: 1, current_stage: "done", pr_number: "2" });
      expect(back.state.history.slice(0, 2)).toEqual(theirs.state.history);
      const again = join(place.clone, "again.json");
      await writeFile(again, exported.stdout);
      expect((await place.run("format", "validate", again)).status).toBe(0);
      const read = await place.json("format", "import", again, "--run", "again");
      expect(await place.json("status", read.run)).toMatchObject({ run: { status: { kind: "done" } } });
    },
  );

  test("starts in a new worktree if the document's is missing; an ended one stays ended", async () => {
    const place = await work.begin();
    const { run } = await place.json("format", "import", await implFile(place, {}));
    const without = await place.run("resume", run);
    expect(without).toMatchObject({ status: 2, stderr: expect.stringContaining("--agent") });
    const agent = await place.agent([GOOD, REVIEW]);
    const note = "/nowhere, does not belong to this repository. The run continues in a new one, based on main";
    const { notes } = await place.json("resume", run, "--dry-run", "--agent", agent);
    expect(notes).toEqual([expect.stringContaining(note)]);
    const resumed = await place.run("resume", run, "--agent", agent);
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    expect(resumed.stdout.replaceAll(/\s+/g, " ")).toContain("work that was never pushed is missing");
    expect((await place.json("status", run)).run.branch).toBe(`holdfast/${run}`);
    expect(await place.run("resume", run, "--max-cost", "5")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("is done, so --max-cost would change nothing"),
    });
    const { entries } = await place.json("events", run, "--limit", "all");
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: "note", body: { text: expect.stringContaining(note) } }),
    );
    const worktrees = (): string => execFileSync("git", ["-C", place.clone, "worktree", "list"]).toString();
    const before = worktrees();
    const other = await place.json("format", "import", await implFile(place, { issue_no: 99 }));
    expect(await place.run("resume", other.run, "--agent", agent)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("There is no issue 99"),
    });
    expect(worktrees()).toBe(before);
    const done = await place.json("format", "import", await implFile(place, { current_stage: "done" }));
    expect(await place.json("status", done.run)).toMatchObject({ run: { status: { kind: "done" } } });
    expect((await place.run("resume", done.run)).status).toBe(0);
  });
});

describe("continuing a run of crunch", () => {
  test("stops at a target; one that is marked as not resumable needs --force", async () => {
    const place = await work.begin();
    const seen = JSON.parse(await readFile(join(golden, "crunch-yaml/CP-20250114-a3f2.json"), "utf8"));
    const theirs = { ...seen, issue_number: 1, issue_snapshot: {}, workflow_state: { current_phase: "ready" } };
    await writeFile(join(place.clone, "crunch.json"), JSON.stringify(theirs));
    const { run } = await place.json("format", "import", "crunch.json");
    const agent = await place.agent([]);
    for (const more of [[], ["--dry-run"]]) {
      const refused = await place.run("resume", run, "--agent", agent, ...more);
      expect(refused).toMatchObject({
        status: 4,
        stderr: expect.stringContaining("CP-20250114-a3f2 says that it cannot be resumed: the branch is gone"),
      });
      expect(refused.stderr).toContain(`resume ${run} --force`);
    }
    expect((await place.run("resume", run, "--agent", agent, "--force", "--target", "enrich")).status).toBe(2);
    expect((await place.run("resume", run, "--agent", agent, "--force", "--dry-run")).status).toBe(0);
    const resumed = await place.run("resume", run, "--agent", agent, "--force", "--target", "ready");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    expect((await place.json("status", run)).run.status.kind).toBe("done");
    const again = await place.run("resume", run);
    expect(again.status, again.stderr).toBe(0);
    expect((await place.run("verify")).status).toBe(0);
  });
});

const THEIRS = `import { defineWorkflow } from "holdfast";
export default defineWorkflow({
  name: "theirs",
  initial: "first",
  stages: {
    first: async () => ({ event: "ok", reason: "it started again" }),
    enrich: async ({ state, position }) => ({
      event: "ok",
      reason: "continued at enrich",
      state: { ...state, seen: position.attempts },
    }),
  },
  transitions: { first: { ok: "enrich" }, enrich: { ok: "done" } },
  ends: { done: "done" },
  initialState: () => ({ begun: true }),
});
`;

describe("continuing with a custom workflow", () => {
  test("starts at the position of the document, and never elsewhere", async () => {
    const place = await work.begin();
    const file = join(place.clone, "theirs.ts");
    const source = workflowSource(THEIRS);
    await writeFile(file, source);
    const { run } = await place.json("format", "import", join(golden, "crunch-yaml/CP-enrich-20250114-b4c5.yaml"));
    await writeFile(join(place.clone, "other.ts"), source.replaceAll("enrich", "somewhere"));
    expect(await place.run("resume", run, "--workflow", "other.ts")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('is at stage "enrich"'),
    });
    // Issue 42 does not exist at this forge. The command asks before it adopts the run, and the answer can be typed as
    // printed.
    const asked = await place.run("resume", run, "--workflow", "theirs.ts");
    expect(asked.status, asked.stdout + asked.stderr).toBe(4);
    expect(asked.stdout).toContain(`resume ${run} --workflow theirs.ts --accept issue_missing`);
    expect((await place.json("show", run)).run.checkpoints).toBe(1);
    expect(await place.git("worktree", "list")).not.toContain(run);
    const resumed = await place.run("resume", run, "--workflow", "theirs.ts", "--accept", "issue_missing");
    expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain("continued at enrich");
    const { checkpoint } = await place.json("show", `${run}@latest`);
    expect(checkpoint.planes.context.values).toEqual({ seen: { enrich: expect.any(Number) } });
    expect(checkpoint.planes.extensions).toHaveProperty("imported");
    const back = await place.run("format", "export", run, "--to", "crunch-yaml");
    expect(back.stdout).toContain("current_phase: docs\n  current_state_label: state:done");
    expect(back.stdout).toContain("issue_number: 42");
  });
});

describe("mirror", () => {
  test("a run updates the other layout while it works, and a mirror that was stopped catches up", async () => {
    const place = await work.begin();
    const target = join(place.clone, "..", "mirrored");
    await writeFile(
      join(place.clone, "holdfast.config.yaml"),
      `mirror:\n  format: crunch-yaml\n  directory: ${JSON.stringify(target)}\n`,
    );
    const ran = await place.run("run", "1", "--no-review", "--agent", await place.agent([GOOD]));
    expect(ran.status, ran.stdout + ran.stderr).toBe(0);
    const directory = join(target, ".claude/crunch/1/checkpoints");
    const before = (await readdir(directory)).toSorted();
    expect(before).toEqual(expect.arrayContaining(["index.yaml", "latest"]));
    const latest = readFileSync(join(directory, "latest"), "utf8");
    expect(latest).toContain("current_phase: docs\n  current_state_label: state:done");
    await promisify(execFile)("rm", [join(directory, "index.yaml"), join(directory, "latest")]);
    const again = await place.json(
      "format",
      "mirror",
      "issue-1",
      "--to",
      "crunch-yaml",
      "--directory",
      target,
      "--once",
    );
    expect(again.written).toHaveLength(2);
    expect((await readdir(directory)).toSorted()).toEqual(before);
    const up = await place.json("format", "mirror", "issue-1", "--to", "crunch-yaml", "--directory", target);
    expect(up).toMatchObject({ run: "issue-1", written: [] });
    expect((await place.run("format", "validate", directory)).status).toBe(0);
  });

  test("follows a run of another process", async () => {
    const place = await work.begin();
    await place.run("checkpoint", "--run", "mine", "--name", "one");
    const mirror = place.start("--json", "format", "mirror", "mine", "--to", "loop-json", "--directory", "there");
    await mirror.says('"sequence":1');
    await place.run("checkpoint", "--run", "mine", "--name", "two");
    await mirror.says('"sequence":2');
    mirror.child.kill("SIGINT");
    expect((await mirror.ended).status).toBe(130);
    expect((await place.run("format", "validate", "there/.aiwg/checkpoints")).status).toBe(0);
  });
});
