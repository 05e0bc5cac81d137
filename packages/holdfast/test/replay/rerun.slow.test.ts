import { execFile } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
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
  [ -e OTHER ] && echo "another line" >> out.txt
  echo "Did part $HOLDFAST_ITERATION: $HOLDFAST_COMPLETION"
else
  echo '{"faithful": 95, "style": 95, "docs": 95, "cornerCases": 95}'
fi
`;

test("a rerun of an issue that does the same work reports no divergence; one that does not names the first", async () => {
  await using scene = await makeScene();
  const remote = join(scene.root, "remote.git");
  await promisify(execFile)("git", ["init", "-q", "--bare", "-b", "main", remote]);
  await scene.git("remote", "add", "origin", remote);
  await scene.git("push", "-q", "origin", "main");
  const agent = join(scene.root, "issue-agent.sh");
  const signal = join(scene.root, "other");
  await writeFile(agent, AGENT.replace("OTHER", signal));
  await chmod(agent, 0o755);
  const forge = openLocalForge({ repository: remote });
  const issue = { title: "Add a greeting", body: "Say hello.", labels: [], key: "rerun" };
  const { number } = await forge.createIssue(issue);
  await using holdfast = await scene.open({ forge: { kind: "local", path: remote, host: null } });
  const { run, outcome } = await holdfast.start({
    work: { kind: "issue", number },
    agent: `command:${agent}`,
    options: { gate: "true", maxIterations: 4 },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  const rerun = async () =>
    await holdfast.work.rerun({ of: run, plan: await holdfast.work.planRerun({ run, publish: true }) });
  const again = await rerun();
  expect(again).toMatchObject({ outcome: { kind: "done" }, compared: { step: null, files: null, verdict: null } });
  expect(again.compared.same).toBeGreaterThan(4);
  await writeFile(signal, "");
  const other = await rerun();
  expect(other.compared.files).not.toBeNull();
});
