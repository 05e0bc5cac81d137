import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { workSuite } from "./testing/work-repository.ts";
import { workflowSource } from "../testing/workflow-source.ts";

const work = workSuite();

/** Something of each kind. The guard counts what comes after it as an iteration. */
const WORKFLOW = `
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineWorkflow } from "holdfast";
const effect = (purpose, more) => ({
  purpose, kind: "message", target: "the list", payload: null,
  lookUp: async () => ({ kind: "absent" }), act: async () => ({ kind: "done", receipt: null }), ...more,
});
export default defineWorkflow({
  name: "all-triggers",
  initial: "work",
  stages: {
    work: async (context) => {
      const write = (name, text) => writeFileSync(join(context.workspace.root, name), text);
      await context.agent({ name: "try", role: "impl", prompt: "p", model: null, yolo: true });
      await context.step("draft", () => { write("draft.txt", "draft"); return null; }, { changesFiles: true });
      await context.step("plan", () => { write("plan.md", "plan"); return null; }, { changesFiles: true, artifacts: ["plan.md"] });
      write("draft.txt", "edited");
      await context.step("squash", () => null, { risk: "squash of the draft" });
      write("draft.txt", "again");
      await context.effect(effect("send"));
      await context.checkpoint({ trigger: "manual", name: "by hand" });
      return { event: "fine", reason: "all of them" };
    },
  },
  transitions: { work: { fine: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
  guard: ({ position, result }) => ({ position: { ...position, iteration: position.iteration + 1 }, result }),
});
`;

test("a run shows each checkpoint with its trigger, and switched off it shows none of the others", async () => {
  const place = await work.begin();
  const source = workflowSource(WORKFLOW);
  await writeFile(join(place.clone, "all.ts"), source);
  const failing = {
    edits: [{ do: "write", path: "half.txt", text: "half" }],
    fail: { cause: "overload", times: 1, afterEdits: true },
  };
  const agent = await place.agent([failing]);
  const config = (switches: object): Promise<void> =>
    writeFile(
      join(place.clone, "holdfast.config.yaml"),
      JSON.stringify({ checkpoints: switches, errors: { retry: { max: 1, delay: "1s" } } }),
    );
  let id = "";
  const triggersOf = async (...args: readonly string[]): Promise<readonly string[]> => {
    const done = await place.run("run", "--task", "t", "--workflow", "all.ts", "--agent", agent, ...args);
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
    const { runs } = await place.json("list");
    id = runs[0].id;
    const { checkpoints } = await place.json("list", id, "--limit", "all");
    return checkpoints.map(({ trigger }: { readonly trigger: string }) => trigger).toReversed();
  };
  await config({});
  const always = ["stage", "error_recovery", "restore", "agent_complete", "automatic"];
  expect(await triggersOf()).toEqual([
    ...always,
    "artifact_complete",
    "before_risky",
    "before_external",
    "manual",
    "iteration",
  ]);
  const shown = await place.run("list", id, "--limit", "all");
  expect(shown.stdout, shown.stderr).toMatch(/before_risky +work .* squash of the draft/);
  await config({ artifactComplete: false, beforeExternal: false, beforeRisky: false });
  expect(await triggersOf("--again")).toEqual([...always, "automatic", "manual", "iteration"]);
});
