import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { finish, pass } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Bench } from "./bench.ts";

const HEAD = "holdfast/issue-1-bench";

/** While CI checks our commit, somebody does something in the remote. */
async function whileChecking(bench: Bench, commands: string): Promise<void> {
  const ci = `git --git-dir=${bench.root}/remote.git ${commands}`;
  await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
}

describe("other people act while the run waits", () => {
  test("merged meanwhile is done", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await whileChecking(bench, `update-ref refs/heads/main refs/heads/${HEAD}`);
    expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("is merged") });
  });

  test("a branch that others replaced is never overwritten unasked: the run parks with both tips, and goes on as told", async () => {
    // The agent's own hand pushes it: after setup has looked, before we push.
    const implModel = "command:cat > ../prompt; sh ../../agent.sh";
    await using bench = await makeBench({
      answers: [pass],
      options: { implModel, reviewModel: "scripted:script.yaml" },
    });
    await bench.git("clone", "commit", "-q", "--allow-empty", "-m", "foreign");
    const foreign = await bench.git("clone", "rev-parse", "HEAD");
    await writeFile(join(bench.root, "agent.sh"), agentScript(bench.root));
    const outcome = await bench.work();
    expect(outcome).toMatchObject({ kind: "parked", on: "person", reason: expect.stringContaining(foreign) });
    expect(await bench.git("remote", "rev-parse", HEAD)).toBe(foreign);
    await bench.answer("theirs");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "log", "-1", "--format=%P", HEAD)).toBe(foreign);
  });
});

function agentScript(root: string): string {
  return [
    `git -C ${root}/clone push -q origin main:${HEAD}`,
    "echo hello > greeting.txt",
    '{ echo "[feat][#1] Add a greeting"; grep -A1 "completion marker of this" ../prompt | tail -1; } > .tmp/finalize.txt',
  ].join("\n");
}
