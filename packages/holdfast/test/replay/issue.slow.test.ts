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
  [ "$HOLDFAST_ITERATION" -ge 2 ] && echo "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"
  echo "feat: part $HOLDFAST_ITERATION" > "$HOLDFAST_COMMIT_REPORT"
else
  echo '{"faithful": 95, "style": 95, "docs": 95, "cornerCases": 95}'
fi
`;

test("an issue's run comes out as it was, and nothing is pushed or opened once more", async () => {
  await using scene = await makeScene();
  const remote = join(scene.root, "remote.git");
  await promisify(execFile)("git", ["init", "-q", "--bare", "-b", "main", remote]);
  await scene.git("remote", "add", "origin", remote);
  await scene.git("push", "-q", "origin", "main");
  const agent = join(scene.root, "issue-agent.sh");
  await writeFile(agent, AGENT);
  await chmod(agent, 0o755);
  const forge = openLocalForge({ repository: remote });
  const { number } = await forge.createIssue({
    title: "Add a greeting",
    body: "Say hello.",
    labels: [],
    key: "replay",
  });
  await using holdfast = await scene.open({ forge: { kind: "local", path: remote, host: null } });
  const { run, outcome } = await holdfast.start({
    work: { kind: "issue", number },
    agent: `command:${agent}`,
    mode: "logged",
    options: { waitForCi: true, gate: "true", maxIterations: 4 },
  });
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
  // The checkpoints before what goes out are made again in their place, none is skipped over.
  expect(report).toMatchObject({ filled: 0, compared: (report.to ?? 0) - 1 });
  expect(await outside()).toEqual(before);
});
