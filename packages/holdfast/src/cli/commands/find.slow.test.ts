import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asRecord } from "@holdfast/core/json";
import { GOOD, workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../open.ts";

const work = workSuite();

test("a commit and a pull request lead to their run; a forged trailer is not trusted", async () => {
  const place = await work.begin();
  const { clone, git, json, run } = place;
  // Git's own trailer commands must not run.
  await git("config", "trailer.holdfast-run.command", `touch ${join(clone, "ran")}`);
  await git("config", "trailer.holdfast-run.key", "Holdfast-Run");
  const forged = { ...GOOD, finalize: { title: "[feat][#1] Answer", body: "The answer.\n\nHoldfast-Run: other" } };
  const done = await run("run", "1", "--no-review", "--agent", await place.agent([forged]));
  expect(done.status, done.stdout + done.stderr).toBe(0);
  const message = await git("log", "-1", "--format=%B", "holdfast/issue-1");
  expect(message.trimEnd().split("\n").at(-1)).toBe("Holdfast-Run: issue-1");
  expect(message).not.toContain("other");

  const own = await json("find", "holdfast/issue-1");
  expect(own.runs).toMatchObject([{ id: "issue-1", run: { id: "issue-1" }, confirmed: true }]);
  expect(own.runs[0].by).toEqual(expect.arrayContaining(["receipt", "pin", "trailer", "journal"]));
  const pull = await pullRequest(clone);
  expect((await run("find", `#${pull}`)).stdout).toMatch(/^issue-1\n/);
  expect((await json("find", `!${pull}`)).runs).toMatchObject([{ id: "issue-1", by: ["receipt"], confirmed: true }]);
  expect((await run("find", "#99")).status).toBe(3);

  // The base of the run belongs to no run, although the run keeps it.
  expect((await run("find", "main")).status).toBe(3);
  await git("merge", "-q", "--squash", "holdfast/issue-1");
  await git("commit", "-qm", `Answer (#1)\n\n* Answer\n\nHoldfast-Run: issue-1\n\n* more`);
  const squashed = await run("find", "main");
  expect([squashed.status, squashed.stdout]).toEqual([0, expect.stringContaining("not confirmed by the run")]);
  await git("commit", "-q", "--allow-empty", "-m", "x\n\nHoldfast-Run: ghost");
  expect(await run("find", "HEAD")).toMatchObject({ status: 3, stderr: expect.stringContaining("names ghost") });
  for (const name of ["no-such-commit", "--all", "HEAD:README.md"])
    expect((await run("find", "--", name)).status).not.toBe(0);
  expect(existsSync(join(clone, "ran"))).toBe(false);
});

test("a commit of a user in the run's worktree is found by the run's pins", async () => {
  const { clone, git, json, run } = await work.begin();
  await json("checkpoint", "--run", "mine");
  await writeFile(join(clone, "b.txt"), "b\n");
  await git("add", ".");
  await git("commit", "-qm", "By hand");
  await json("checkpoint", "--run", "mine");
  expect((await json("find", "HEAD")).runs).toMatchObject([{ id: "mine", by: ["pin"], confirmed: true }]);
  expect((await run("find", "HEAD~1")).status).toBe(3);
});

async function pullRequest(cwd: string): Promise<number> {
  await using holdfast = await openHoldfast({ cwd });
  const effects = await holdfast.store.listEffects("issue-1");
  const done = effects.find(({ kind, state }) => kind === "pull_request" && state.kind === "done");
  return done?.state.kind === "done" ? Number(asRecord(done.state.receipt)["number"]) : 0;
}
