import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { GOOD, type Journey, startJourney, workSuite, workflowSource } from "@holdfast/test-support/cli-repositories";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";
import { displayWidth } from "../output/text.ts";

describe("rollback", () => {
  let journey: Journey;

  /** Three rounds of work and test; the third breaks what the second had. */
  const WORKFLOW = `
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineWorkflow } from "holdfast";
const ROUNDS = ["one", "two", "broken"];
export default defineWorkflow({
  name: "rounds",
  initial: "work",
  transitions: { work: { worked: "check" }, check: { passed: "work", gave_up: "fatal", enough: "done" } },
  ends: { fatal: "failed", done: "done" },
  initialState: () => ({ round: 0 }),
  stages: {
    work: async ({ state, step, effect, workspace }) => {
      const text = process.env.FIXED ?? ROUNDS[state.round];
      await step("edit", () => { writeFileSync(join(workspace.root, "app.txt"), text + "\\n"); return text; }, { changesFiles: true });
      if (state.round === 2 && process.env.MIGRATES)
        await effect({ purpose: "migrate", kind: "migration", target: "staging", payload: 1, rollback: "refuse",
          lookUp: async () => ({ kind: "absent" }), act: async () => ({ kind: "done", receipt: 1 }) });
      return { event: "worked", reason: "did it", state: { round: state.round + 1, text } };
    },
    check: async ({ state, step }) => {
      const { code } = await step("test", () => ({ kind: "exited", code: state.text === "broken" ? 1 : 0, output: "" }));
      if (code !== 0) return { event: "gave_up", reason: "The test failed" };
      return state.text === "fixed" ? { event: "enough", reason: "Fixed" } : { event: "passed", reason: "fine" };
    },
  },
});
`;

  beforeAll(async () => {
    journey = await startJourney();
  }, 60_000);
  afterAll(() => journey.holdfast.remove());

  beforeEach(async () => {
    await journey.begin();
    await journey.write("rounds.mjs", workflowSource(WORKFLOW));
  });

  /** Runs the rounds; gives the run's id. */
  async function fail(env: Readonly<Record<string, string>> = {}): Promise<string> {
    const finished = await journey.runIn(".", ["run", "--task", "Rounds", "--workflow", "rounds.mjs", "--json"], {
      env,
    });
    expect(finished.status, finished.stderr + finished.stdout).toBe(1);
    const { run } = JSON.parse(finished.stdout.trim().split("\n").at(-1) ?? "{}");
    return String(run.id);
  }

  const at80 = (args: readonly string[]) => journey.runIn(".", args, { env: { COLUMNS: "80" } });
  async function app(run: string): Promise<string> {
    const { worktree } = (await journey.json("show", `${run}@latest`)).checkpoint.planes.files;
    return await readFile(join(worktree, "app.txt"), "utf8");
  }

  test("restore --smart prints the cause, the chosen checkpoint and why not the others, within 80 columns", async () => {
    const run = await fail();
    const looked = await at80(["restore", run, "--smart", "--dry-run"]);
    expect(looked).toMatchObject({ status: 0, stderr: "" });
    expect(looked.stdout.split("\n").filter((line) => displayWidth(line) > 80 && !line.startsWith("  in "))).toEqual(
      [],
    );
    expect(looked.stdout.replaceAll(run, "RUN")).toMatch(
      /^cause {4}test passed with the files of checkpoint 7 and fails with those of 10\n {9}\(test failed with exit 1\)\.\ngo back {2}to RUN@7: it is the newest that is whole and surely\s+before\s+the\s+cause\.\nWhy not the others:\n {2}10 {5}the run had failed by then\n {2}8-9 {4}its files fail test\n {2}5-6 {4}checkpoint 7 has the same files and is newer\n {2}1-4 {4}it would do as well, but checkpoint 7 is newer and holds more work\nRestore RUN@7/,
    );
    const { rollback, plan } = await journey.json("restore", run, "--smart", "--dry-run");
    expect(rollback).toMatchObject({ kind: "back", chosen: 7, cause: { kind: "regression" } });
    expect(plan.target.sequence).toBe(7);
    expect(await app(run)).toBe("broken\n");

    const done = await at80(["restore", run, "--smart", "--yes"]);
    expect(done.status).toBe(0);
    expect(done.stderr).toMatch(/✓ integrity {4}.*is whole\n✓ files {8}1 written, 0 removed;/);
    expect(done.stderr).toMatch(/- conversation there is none in it\n/);
    expect(done.stderr.replaceAll(/\s+/g, " ")).toContain(
      "✓ resume the run is at work; it had ended, and continues only if it is resumed with --force from a checkpoint",
    );
    expect(done.stdout).toContain(`Continue with: holdfast resume ${run}@latest --force\n`);
    expect(await app(run)).toBe("two\n");
    const again = await journey.json("restore", run, "--smart");
    expect([again.rollback.chosen, again.report]).toEqual([12, null]);

    // Without --smart too, and the printed command works.
    const back = await at80(["restore", `${run}@5`, "--yes"]);
    const [, command = ""] = /^Continue with: holdfast (.*)$/m.exec(back.stdout) ?? [];
    expect(command, back.stdout + back.stderr).toBe(`resume ${run}@latest --force`);
    const finished = await journey.runIn(".", command.split(" "), { env: { FIXED: "fixed" } });
    expect(finished, finished.stderr).toMatchObject({ status: 0 });
  });

  test("resume --from smart restores and continues", async () => {
    const run = await fail();
    const looked = await at80(["resume", run, "--from", "smart", "--force", "--dry-run"]);
    expect(looked.stdout).toContain(`to ${run}@7`);
    expect(looked.stdout).toContain(`resume ${run} --from ${run}@7 --force`);
    const finished = await journey.runIn(".", ["resume", run, "--from", "smart", "--force"], {
      env: { FIXED: "fixed" },
    });
    expect(finished, finished.stderr).toMatchObject({ status: 0 });
    expect(finished.stdout).toContain("restore, files: 1 written");
    expect(await app(run)).toBe("fixed\n");
  });

  test("an effect that old files do not match: a decision, named with its flag; nothing is changed before", async () => {
    const run = await fail({ MIGRATES: "1" });
    const stopped = await at80(["restore", run, "--smart", "--yes"]);
    expect(stopped).toMatchObject({ status: 4, stdout: "" });
    expect(stopped.stderr).toContain("migration on staging");
    expect(stopped.stderr).toContain("--past-effects");
    expect(await journey.fails(4, "resume", run, "--from", "smart", "--force")).toContain("--past-effects");
    expect(await app(run)).toBe("broken\n");
    const { rollback } = await journey.json("restore", run, "--smart", "--past-effects", "--yes");
    expect(rollback).toMatchObject({ chosen: 7, accepted: [{ kind: "migration" }] });
    expect(await app(run)).toBe("two\n");
  });

  test("nothing failed: nothing is rolled back", async () => {
    await journey.json("checkpoint", "--run", "fine");
    const { rollback, plan, report } = await journey.json("restore", "fine", "--smart");
    expect([rollback.kind, plan, report]).toEqual(["stay", null, null]);
    expect((await journey.run("restore", "fine", "--smart")).stdout).toMatch(
      /^cause .*Nothing in the journal shows a failure/,
    );
  });

  test("conflicting flags are refused, and a picker needs a terminal", async () => {
    await journey.json("checkpoint", "--run", "fine");
    expect(await journey.fails(2, "restore", "fine@1", "--smart")).toContain("fine@1 names one already");
    expect(await journey.fails(2, "restore", "fine", "--smart", "--pick")).toContain("exclude each other");
    expect(await journey.fails(2, "restore", "fine@1", "--past-effects")).toContain("--past-effects needs --smart");
    expect(await journey.fails(2, "resume", "fine", "--past-effects")).toContain("--past-effects needs --from smart");
    expect(await journey.fails(4, "restore", "fine", "--pick")).toContain("holdfast restore fine@SEQ");
    expect(await journey.fails(4, "resume", "fine", "--from", "pick")).toContain(
      "holdfast resume fine --from fine@SEQ",
    );
  });

  test("a restore that a step stops prints the steps, and nothing was changed", async () => {
    await journey.write("out.txt", "saved\n");
    await journey.json("checkpoint", "--run", "r");
    await journey.git("rm", "-qf", "--cached", "--ignore-unmatch", "out.txt");
    await journey.write(".gitignore", "*.log\nout.txt\n");
    await journey.write("out.txt", "of no checkpoint\n");
    await journey.json("checkpoint", "--run", "r");
    const stderr = await journey.fails(4, "restore", "r@1", "--yes");
    expect(stderr).toMatch(
      /✓ integrity[^]*✗ files {8}Restoring r@1 is not possible: out\.txt[^]*· values {7}not reached/,
    );
    expect(await journey.read("out.txt")).toBe("of no checkpoint\n");
  });

  describe.skipIf(!canFakeTerminal())("on a terminal (needs util-linux script)", () => {
    test("the picker shows each with its preview, asks until it gets an answer, and Enter changes nothing", async () => {
      const run = await fail({ MIGRATES: "1" });
      const left = await typed(`restore ${run} --pick`, ["\n"]);
      expect(left.status).toBe(4);
      expect(left.output).toContain("Not restored; nothing was changed.");
      const { output, status } = await typed(`restore ${run} --pick`, ["99\n", "4\n", "y\n"]);
      expect(status).toBe(0);
      expect(output).toContain("There is no checkpoint 99");
      expect(output).toMatch(/NO +WHEN +STAGE +TRIGGER +FILES SINCE +EFFECTS SINCE/);
      expect(output).toMatch(/4 +now|4 +\d+ s ago|4 +just now/);
      expect(output).toMatch(/1 changed +migration on staging/);
      expect(await app(run)).toBe("one\n");
    });

    test("resume --from pick continues from the chosen checkpoint, and Enter changes nothing", async () => {
      const run = await fail();
      const left = await typed(`resume ${run} --from pick --force`, ["\n"]);
      expect([left.status, await app(run)]).toEqual([4, "broken\n"]);
      expect(left.output).toContain("Not resumed; nothing was changed.");
      const { output, status } = await typed(`resume ${run} --from pick --force`, ["4\n", "y\n"], { FIXED: "fixed" });
      expect(status, output).toBe(0);
      expect(await app(run)).toBe("fixed\n");
    });
  });

  function typed(command: string, answers: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { entry, directory } = journey.holdfast;
    return typeInTerminal({
      command: `stty cols 120; "${process.execPath}" "${entry}" --no-color ${command}`,
      cwd: journey.repository(),
      env: { HOME: directory, ...env },
      answers,
      question: /Enter for none:|\[y\/N\]/,
    });
  }
});

describe("rollback impl", () => {
  const work = workSuite();

  const poor = {
    when: { role: "review" },
    reply: "Hm.",
    scores: { faithful: 60, style: 60, docs: 60, corner_cases: 60 },
  };

  test("an issue's run whose second round broke the gate is restored to the files of the first, as after its review", async () => {
    const place = await work.begin();
    const second = {
      ...GOOD,
      when: { role: "impl", iteration: [2, 3] },
      edits: [{ do: "write", path: "answer.txt", text: "broken\n" }],
    };
    const first = { ...GOOD, when: { role: "impl", iteration: 1 } };
    const agent = await place.agent([first, second, poor]);
    const args = ["run", "1", "--agent", agent, "--gate", "! grep -q broken answer.txt", "--max-iterations", "3"];
    const failed = await place.run(...args);
    expect(failed.status, failed.stdout + failed.stderr).toBe(1);
    const { runs } = await place.json("list");
    const run = String(runs[0].id);
    const { rollback } = await place.json("restore", run, "--smart", "--dry-run");
    expect(rollback).toMatchObject({ kind: "back", cause: { kind: "regression" } });
    expect(rollback.cause.why).toMatch(
      /^gate-command passed with the files of checkpoint \d+ and fails with those of \d+/,
    );
    const { checkpoint } = await place.json("show", `${run}@${rollback.chosen}`);
    expect(checkpoint).toMatchObject({ stage: "impl", iteration: 2 });
    expect(checkpoint.planes.position.feedback).toContain("60");
  });
});
