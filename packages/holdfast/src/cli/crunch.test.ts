import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openLocalForge } from "../forges/local/local-forge.ts";
import { workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();

const SAYS = { reply: '{"status": "SUCCESS", "summary": "Done."}', usage: { input: 800, output: 200 } };

async function putGraph(place: WorkPlace, text: string): Promise<void> {
  await mkdir(join(place.clone, ".holdfast/crunch/graphs"), { recursive: true });
  await writeFile(join(place.clone, ".holdfast/crunch/graphs/enrich.yaml"), text);
}

test("a text becomes an issue, a team enriches it, the run stops at its target and goes on", async () => {
  const place = await work.begin();
  await putGraph(
    place,
    "nodes:\n  - { id: spec, agent: system-architect, action: create_spec, task: Write it down. }\n",
  );
  const agent = await place.agent([SAYS]);
  const words = ["run", "--workflow", "crunch", "--task", "Greet everybody", "--type", "bug", "--agent", agent];
  const done = await place.run(...words, "--target", "enrich");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(done.stdout).toContain("Done issue-2: Stopped at enrich, its target.");
  expect(done.stdout).toContain("Go on with: holdfast resume issue-2 --target PHASE");
  for (const line of done.stdout.split("\n")) expect(line.length, line).toBeLessThanOrEqual(100);
  const forge = openLocalForge({ repository: place.remote });
  expect(await forge.getIssue(2)).toMatchObject({ title: "Greet everybody", labels: ["type:bug", "state:enrich"] });
  expect(await place.git("branch", "--list", "--format=%(refname:short)")).toContain("fix/issue-2-greet-everybody");

  const on = await place.run("resume", "issue-2", "--target", "ready");
  expect(on.status, on.stdout + on.stderr).toBe(0);
  expect(on.stdout).toContain("Stopped at ready");
  expect((await forge.getIssue(2))?.labels).toEqual(["type:bug", "state:ready"]);
  expect(await place.run("resume", "issue-2", "--target", "enrich")).toMatchObject({ status: 2 });
}, 120_000);

test("what is wrong in a file of crunch's is told with its line before anything begins; the right ones are printed", async () => {
  const place = await work.begin();
  await putGraph(place, "nodes:\n  - { id: spec, agent: nobody, action: create_spec, task: Write. }\n");
  const agent = await place.agent([SAYS]);
  const refused = await place.run("run", "1", "--workflow", "crunch", "--agent", agent);
  expect(refused.status).toBe(2);
  expect(refused.stderr).toMatch(/graphs\/enrich\.yaml:2:\d+: .*nobody/);
  expect(await place.git("branch", "--list")).toBe("* main");
  await putGraph(place, "nodes: []\n");
  const { files } = await place.json("config", "--crunch");
  expect(files.map((file: { readonly path: string }) => file.path)).toEqual([
    "agents.yaml",
    "team.yaml",
    "weights.yaml",
    "veto.yaml",
    "graphs/enrich.yaml",
    "graphs/implementing.yaml",
    "graphs/e2e.yaml",
    "graphs/docs.yaml",
  ]);
}, 60_000);
