import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { GOOD, type WorkPlace, workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../open.ts";

const work = workSuite();

/** A place where issue-1 is done, and the checkpoint with which its pr stage began. */
async function begin(): Promise<{ readonly place: WorkPlace; readonly from: string }> {
  const place = await work.begin();
  const agent = await place.agent([GOOD]);
  const done = await place.run("run", "1", "--no-review", "--agent", agent);
  expect(done.status, done.stdout + done.stderr).toBe(0);
  const { checkpoints } = await place.json("list", "issue-1");
  const pr = checkpoints.findLast(({ stage }: { stage: string }) => stage === "pr");
  return { place, from: `issue-1@${pr.sequence}` };
}

test("a fork waits for you before its first effect, once, for every way of resuming it", async () => {
  const { place, from } = await begin();
  const before = await outside(place);
  await place.json("fork", from, "--as", "other");
  const asked = await place.run("resume", "other");
  expect([asked.status, asked.stdout]).toEqual([
    4,
    expect.stringMatching(/other is a fork of issue-1@\d+, and its\s+next\s+step\s+is\s+push/),
  ]);
  expect(asked.stdout).toContain("or: holdfast approve other stop\n");
  {
    await using holdfast = await openHoldfast({ cwd: place.clone });
    expect((await holdfast.resume({ run: "other" })).outcome).toMatchObject({ kind: "waiting", for: "you" });
  }
  expect(await outside(place)).toEqual(before);
  expect(await place.run("approve", "other", "publish")).toMatchObject({ status: 0 });
  const resumed = await place.run("resume", "other");
  expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
  expect(await outside(place)).toEqual({ pulls: before.pulls + 1, heads: before.heads + 1 });

  await place.json("fork", from, "--as", "third");
  expect(await place.run("resume", "third")).toMatchObject({ status: 4 });
  expect(await place.run("approve", "third", "stop")).toMatchObject({ status: 0 });
  expect(await place.run("resume", "third")).toMatchObject({ status: 1 });
  // The fork of a fork that may publish asks as well.
  const { checkpoints } = await place.json("list", "other");
  const pr = checkpoints.findLast(({ stage }: { stage: string }) => stage === "pr");
  await place.json("fork", `other@${pr.sequence}`, "--as", "fourth");
  const again = await place.run("resume", "fourth");
  expect([again.status, again.stdout]).toEqual([4, expect.stringMatching(/fourth is a fork of other@\d+/)]);
  expect(await outside(place)).toEqual({ pulls: before.pulls + 1, heads: before.heads + 1 });
  expect(await place.run("approve", "fourth", "publish")).toMatchObject({ status: 0 });
  expect(await place.run("resume", "fourth")).toMatchObject({ status: 0 });
  expect(await outside(place)).toEqual({ pulls: before.pulls + 2, heads: before.heads + 2 });
});

test("a rerun publishes nothing unless requested", async () => {
  const { place } = await begin();
  const before = await outside(place);
  const asked = await place.run("rerun", "issue-1", "--as", "again");
  expect([asked.status, asked.stdout]).toEqual([4, expect.stringContaining("again is a rerun of issue-1")]);
  expect(await place.run("resume", "again")).toMatchObject({ status: 4 });
  expect(await outside(place)).toEqual(before);
  const published = await place.run("rerun", "issue-1", "--as", "published", "--publish");
  expect(published.stdout, published.stderr).toContain("Done published");
  expect(await outside(place)).toEqual({ pulls: before.pulls + 1, heads: before.heads + 1 });
  // Neither rerun is the run of the issue.
  expect((await place.run("run", "1", "--agent", "command:true")).stdout).toContain("Done issue-1:");
});

test("an agent's own commit that closes another issue or mentions a user is a question before the push", async () => {
  const { place, asked } = await askedAboutCommit();
  const shown = asked.stdout.replaceAll(/\s+/g, " ");
  expect(shown).toMatch(/commit [0-9a-f]{10}: Fixes #77 and thanks @everyone/);
  expect(shown).not.toContain(": Closes #1");
  expect(shown).not.toContain("Co-authored-by");
  expect(shown).toContain("or: holdfast approve issue-1 stop");
  expect(await place.git("ls-remote", "origin", "refs/heads/holdfast/*")).toBe("");
  // The commit is the agent's or the user's: it is published as it is, or not at all.
  expect(await place.run("approve", "issue-1", "push")).toMatchObject({ status: 0 });
  const done = await place.run("resume", "issue-1");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(await place.git("--git-dir", place.remote, "log", "--format=%B", "holdfast/issue-1")).toContain("Fixes #77");
});

test.each(["at once", "after an answer"])("a reworded commit is not asked about again, %s", async (when) => {
  const { place } = await askedAboutCommit();
  if (when === "after an answer") expect(await place.run("approve", "issue-1", "push")).toMatchObject({ status: 0 });
  const listed = await place.git("worktree", "list", "--porcelain");
  const worktree = /^worktree (.*issue-1)$/m.exec(listed)?.[1] ?? expect.fail(listed);
  await place.git(
    "-C",
    worktree,
    "-c",
    "user.name=B",
    "-c",
    "user.email=b@example.com",
    "commit",
    "-q",
    "--amend",
    "-m",
    "Reworded",
  );
  const done = await place.run("resume", "issue-1", "--accept", "head_moved");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  const published = await place.git("--git-dir", place.remote, "log", "--format=%B", "holdfast/issue-1");
  expect(published).toContain("Reworded");
  expect(published).not.toContain("Fixes #77");
});

/** A run whose agent commits with a message that closes another issue. */
async function askedAboutCommit() {
  const place = await work.begin();
  const script = join(place.clone, "..", "agent.sh");
  const message = [
    "Add the answer",
    "Closes #1",
    "Fixes #77 and thanks @everyone",
    "Co-authored-by: B <b@example.com>",
  ];
  await writeFile(
    script,
    [
      "echo 42 > answer.txt",
      "git add answer.txt",
      `git -c user.name=B -c user.email=b@example.com commit -q ${message.map((line) => `-m '${line}'`).join(" ")}`,
      `{ printf '[feat][#1] Answer\\n\\nThe answer.\\n'; echo "$HOLDFAST_COMPLETION"; } > "$HOLDFAST_FINALIZE_FILE"`,
    ].join("\n"),
  );
  const asked = await place.run("run", "1", "--no-review", "--agent", `command:sh ${script}`);
  expect(asked.status, asked.stdout + asked.stderr).toBe(4);
  return { place, asked };
}

async function outside(place: WorkPlace): Promise<{ readonly pulls: number; readonly heads: number }> {
  await using holdfast = await openHoldfast({ cwd: place.clone });
  const { forge } = await holdfast.work.adapters();
  const log = await readFile(join(forge?.location ?? "", "log.jsonl"), "utf8");
  const heads = await place.git("ls-remote", "--heads", place.remote);
  return {
    pulls: log.split("\n").filter((line) => line.includes('"pull_created"')).length,
    heads: heads.split("\n").length,
  };
}
