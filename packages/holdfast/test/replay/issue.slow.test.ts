import { execFile } from "node:child_process";
import { chmod, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openLocalForge } from "@holdfast/forges/local";
import { makeScene } from "./recorded-loop.ts";

const AGENT = `#!/bin/sh
cat > /dev/null
if [ "$HOLDFAST_ROLE" = impl ]; then
  echo "line $HOLDFAST_ITERATION" >> out.txt
  echo "feat: part $HOLDFAST_ITERATION" > "$HOLDFAST_COMMIT_REPORT"
  [ -e OTHER ] && echo "another line" >> out.txt
  echo "Did part $HOLDFAST_ITERATION: $HOLDFAST_COMPLETION"
else
  echo '{"faithful": 95, "style": 95, "docs": 95, "cornerCases": 95}'
fi
`;

/** Passes in the second iteration. */
const GATE = 'grep -q "line 2" out.txt';

/** An issue on a local forge, and an agent that resolves it in two iterations. `other` makes the agent do more. */
async function prepareIssue(scene: Awaited<ReturnType<typeof makeScene>>) {
  const remote = join(scene.root, "remote.git");
  await promisify(execFile)("git", ["init", "-q", "--bare", "-b", "main", remote]);
  await scene.git("remote", "add", "origin", remote);
  await scene.git("push", "-q", "origin", "main");
  const agent = join(scene.root, "issue-agent.sh");
  const other = join(scene.root, "other");
  await writeFile(agent, AGENT.replace("OTHER", other));
  await chmod(agent, 0o755);
  const issue = { title: "Add a greeting", body: "Say hello.", labels: [], key: "replay" };
  const { number } = await openLocalForge({ repository: remote }).createIssue(issue);
  const holdfast = await scene.open({ forge: { kind: "local", path: remote, host: null } });
  const start = { work: { kind: "issue", number }, agent: `command:${agent}` } as const;
  return { remote, agent, other, holdfast, start };
}

test("an issue's run replays identically, and nothing is pushed or opened again", async () => {
  await using scene = await makeScene();
  const { remote, agent, holdfast, start } = await prepareIssue(scene);
  const options = { waitForCi: true, gate: GATE, baseGate: false, maxIterations: 4 };
  const { run, outcome } = await holdfast.start({ ...start, mode: "logged", options });
  expect(outcome).toMatchObject({ kind: "done" });
  await rm(agent);
  const outside = async (): Promise<unknown> => [
    await promisify(execFile)("git", ["-C", remote, "for-each-ref"]),
    (await readdir(join(remote, "holdfast-forge"), { recursive: true })).toSorted(),
  ];
  const before = await outside();
  const report = await holdfast.work.replay({ run });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done", iteration: 2 });
  expect(report.agents).toBe(3);
  // The checkpoints before an effect are taken again, and none is skipped.
  expect(report).toMatchObject({ filled: 0, compared: (report.to ?? 0) - 1 });
  expect(await outside()).toEqual(before);
  await holdfast.close();
});

test("a rerun that does the same work reports no divergence, and one that does not names the first", async () => {
  await using scene = await makeScene();
  const { other, holdfast, start } = await prepareIssue(scene);
  const { run, outcome } = await holdfast.start({
    ...start,
    options: { gate: GATE, baseGate: false, maxIterations: 4 },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  const rerun = async () =>
    await holdfast.work.rerun({ of: run, plan: await holdfast.work.planRerun({ run, publish: true }) });
  const again = await rerun();
  expect(again).toMatchObject({ outcome: { kind: "done" }, compared: { step: null, files: null, verdict: null } });
  expect(again.compared.same).toBeGreaterThan(4);
  await writeFile(other, "");
  expect((await rerun()).compared.files).not.toBeNull();
  await holdfast.close();
});
