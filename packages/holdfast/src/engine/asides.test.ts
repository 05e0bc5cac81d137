import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AgentReport, Aside, AsideMerged, StageFunction } from "./stage-context.ts";
import { begin, define } from "../testing/toy-run.ts";
import type { State } from "../testing/toy-run.ts";
import { startInWorktree } from "../testing/toy-worktree.ts";

const CALL = { role: "worker", prompt: "do", model: null, yolo: true } as const;

interface Seen {
  readonly asides: Aside[];
  readonly reports: AgentReport[];
  readonly merges: AsideMerged[];
}

/** Each name an aside, all at once, merged in their order. */
const sideBySide =
  (seen: Seen, names: readonly string[]): StageFunction<State> =>
  async ({ aside, agent, mergeAside }) => {
    const asides = await Promise.all(names.map((name) => aside(name)));
    const reports = await Promise.all(
      asides.map((one) => agent({ ...CALL, name: `work ${one.name}`, aside: one, env: { WHAT: one.name } })),
    );
    seen.asides.push(...asides);
    seen.reports.push(...reports);
    for (const [at, one] of asides.entries())
      seen.merges.push(await mergeAside(`merge ${one.name}`, { aside: one, commit: reports[at]?.commit ?? "" }));
    return { event: "worked", reason: "all merged" };
  };

test("three at once, each sees the run's files and nothing of the others; merged in order they are the run's", async () => {
  const seen: Seen = { asides: [], reports: [], merges: [] };
  const others: boolean[] = [];
  const toy = await startInWorktree((task) => {
    const name = task.env["WHAT"] ?? "";
    expect(readFileSync(join(task.cwd, "untracked.txt"), "utf8")).toBe("the run's\n");
    others.push(["x", "y", "z"].some((other) => existsSync(join(task.cwd, `${other}.txt`))));
    writeFileSync(join(task.cwd, `${name}.txt`), `${name}\n`);
    return { text: name };
  });
  toy.file("untracked.txt", "the run's\n");
  const workflow = define({ work: sideBySide(seen, ["x", "y", "z"]) });
  await begin(toy.parts, workflow, toy.workspace);
  await expect(toy.go(workflow)).resolves.toMatchObject({ kind: "done" });
  expect(seen.merges).toEqual(["x", "y", "z"].map((name) => ({ kind: "merged", files: [`${name}.txt`] })));
  expect(others).toEqual([false, false, false]);
  for (const name of ["x", "y", "z"])
    expect(readFileSync(join(toy.workspace.root, `${name}.txt`), "utf8")).toBe(`${name}\n`);
  expect(await toy.workspaces.asides.list()).toEqual([]);
  for (const { root } of seen.asides) expect(existsSync(root)).toBe(false);
});
