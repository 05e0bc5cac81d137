import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { finish, pass } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Bench } from "./bench.ts";

const HEAD = "holdfast/issue-1-bench";

/** While CI checks our commit, another user changes the remote. */
async function whileChecking(bench: Bench, commands: string): Promise<void> {
  const ci = `git --git-dir=${bench.root}/remote.git ${commands}`;
  await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
}

describe("other users act while the run waits", () => {
  test("merged meanwhile is done", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await whileChecking(bench, `update-ref refs/heads/main refs/heads/${HEAD}`);
    expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("is merged") });
  });

  test("a branch that others replaced is never overwritten without consent: the run waits with both tips, and continues as answered", async () => {
    // The agent itself pushes it: after setup has checked, and before our push.
    const implModel = "command:cat > ../prompt; sh ../../agent.sh";
    await using bench = await makeBench({
      answers: [pass],
      options: { implModel, reviewModel: "scripted:script.yaml" },
    });
    await bench.git("clone", "commit", "-q", "--allow-empty", "-m", "foreign");
    const foreign = await bench.git("clone", "rev-parse", "HEAD");
    await writeFile(join(bench.root, "agent.sh"), agentScript(bench.root));
    const outcome = await bench.work();
    expect(outcome).toMatchObject({ kind: "waiting", for: "you", reason: expect.stringContaining(foreign) });
    expect(await bench.git("remote", "rev-parse", HEAD)).toBe(foreign);
    await bench.answer("theirs");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "log", "-1", "--format=%P", HEAD)).toBe(foreign);
  });
});

describe("commits that the run did not make", () => {
  const foreign = (root: string) =>
    [
      `[ -e ${root}/added ] && exit 0`,
      `touch ${root}/added`,
      `cd ${root}/clone && git fetch -q origin && git checkout -q ${HEAD}-theirs 2>/dev/null || git checkout -q -b ${HEAD}-theirs origin/${HEAD}`,
      "echo theirs > theirs.txt && git add -A",
      'git -c user.name=b -c user.email=b@example.org commit -qm "Add theirs"',
      `git push -q origin HEAD:${HEAD}`,
    ].join("\n");

  test.each([
    ["theirs", "greeting.txt\nreadme.md\ntheirs.txt"],
    ["ours", "greeting.txt\nreadme.md"],
  ])("added to the run's branch are a question, not built upon (%s)", async (answer, files) => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await writeFile(join(bench.root, "foreign.sh"), foreign(bench.root));
    await writeFile(join(bench.forge.location, "forge.yaml"), `ci: sh ${bench.root}/foreign.sh\n`);
    expect(await bench.work()).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringMatching(/did not push on top of what this run pushed/),
    });
    expect(await bench.git("remote", "ls-tree", "--name-only", HEAD)).toContain("theirs.txt");
    await bench.answer(answer);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "ls-tree", "--name-only", HEAD)).toBe(files);
    expect(await bench.calls("agent")).toBe(1);
  });

  test.each([
    ["accept", "done"],
    ["stop", "failed"],
  ])("an agent that pushes to the base itself: the run asks and opens no pull request (%s)", async (answer, kind) => {
    const implModel = "command:cat > ../prompt; sh ../../agent.sh";
    const options = { implModel, reviewModel: "scripted:script.yaml", waitForCi: true };
    await using bench = await makeBench({ answers: [pass], options });
    const lines = [
      "echo hello > greeting.txt && git add greeting.txt",
      "git -c user.name=b -c user.email=b@example.org commit -qm hello",
      "git push -q origin HEAD:main",
      MARK,
    ];
    await writeFile(join(bench.root, "agent.sh"), lines.join("\n"));
    const reason = expect.stringMatching(/main on the remote already contains/);
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you", reason });
    await bench.answer(answer);
    expect(await bench.work()).toMatchObject({ kind });
    expect(await bench.pulls()).toBe(0);
    expect(await bench.calls("agent")).toBe(1);
  });
});

describe("an agent that reports completion and changed nothing", () => {
  const empty = (iteration: number) => ({ ...finish({ iteration }), edits: [] });

  test("is not done and not reviewed; the second time in a row the user is asked", async () => {
    const answers = [empty(1), empty(2), finish({ iteration: 3 }), pass];
    await using bench = await makeBench({ answers });
    expect(await bench.work()).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringMatching(/no file differs from main, for the second time in a row/),
    });
    expect([await bench.calls("agent"), await bench.calls("reviewer")]).toEqual([2, 0]);
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("no file differs from main");
    await bench.answer("again");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect([await bench.calls("agent"), await bench.calls("reviewer")]).toEqual([3, 1]);
  });

  test("after the answer stop, the run ends with that reason", async () => {
    await using bench = await makeBench({ answers: [empty(1), empty(2), pass] });
    await bench.work();
    await bench.answer("stop");
    expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringMatching(/^Stopped by you/) });
    expect(await bench.calls("agent")).toBe(2);
  });
});

const MARK =
  '{ echo "[feat][#1] Add a greeting"; grep -A1 "completion marker of this" ../prompt | tail -1; } > .tmp/finalize.txt';

function agentScript(root: string): string {
  return [`git -C ${root}/clone push -q origin main:${HEAD}`, "echo hello > greeting.txt", MARK].join("\n");
}
