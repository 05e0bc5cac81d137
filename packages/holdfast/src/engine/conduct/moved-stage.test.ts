import { expect, test } from "vitest";
import { crunchFreshness } from "../../core/crunch/crunch-freshness.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import { ISSUE, RUN, startResumeScene } from "../../testing/scenes/resume-scene.ts";
import type { ResumeScene } from "../../testing/scenes/resume-scene.ts";

const freshness = crunchFreshness;

/** As crunch's state has the stays of a run; the word is crunch's. */
const entered = (stage: string): JsonObject =>
  Object.fromEntries([
    ["base", { branch: "main", commit: "c0" }],
    ["phases", [Object.fromEntries([["phase", stage]])]],
  ]);

/** A crunch run that stands at a phase, in the middle of a stay with a finished step and one under way. */
async function standAt(stage: string): Promise<ResumeScene> {
  const scene = await startResumeScene();
  const move = (planes: Planes): Planes => ({
    ...planes,
    position: {
      ...planes.position,
      stage,
      visit: { number: 3, steps: { a: 1 }, failures: {}, unreduced: ["event"] },
    },
  });
  await scene.save(entered(stage), move);
  return scene;
}

test("a person moved the issue: the run follows, with a warning, in a stay of its own", async () => {
  const scene = await standAt("implementing");
  const labels = ["feature", "state:docs"];
  scene.forge.issue = { ...ISSUE, labels };
  const { plan } = await scene.resume({ freshness });
  expect(plan).toMatchObject({
    kind: "warn",
    actions: [
      { kind: "take_issue" },
      { kind: "move_stage", stage: "docs", why: expect.stringContaining("state:docs") },
    ],
  });
  const { planes } = await scene.newest();
  expect(planes.position).toMatchObject({ stage: "docs", visit: { number: 4, steps: {}, unreduced: ["event"] } });
  expect(planes.inputs.issue?.labels).toEqual(["feature", "state:docs"]);
  const entries = await Array.fromAsync(scene.store.readJournal({ run: RUN }));
  expect(entries.filter(({ kind }) => kind === "stage.entered").map(({ body }) => body)).toEqual([
    { visit: 4, stage: "docs", iteration: 1 },
  ]);
  // The forge of this scene can only be read: an old label that was written back would be an error here.
  expect(scene.forge.issue.labels).toBe(labels);
  expect((await scene.plan({ freshness })).findings).toEqual([]);
});

test("the label that the run itself set is no difference, and moves nothing", async () => {
  const scene = await standAt("implementing");
  scene.forge.issue = { ...ISSUE, labels: ["state:implementing", "feature"] };
  expect((await scene.plan({ freshness })).plan).toEqual({ kind: "resume", judgements: [], actions: [] });
});

test("whoever goes back to an older checkpoint goes there, whatever the label says", async () => {
  const scene = await standAt("enrich");
  const { sequence } = await scene.newest();
  await scene.save(entered("docs"), (planes) => ({
    ...planes,
    position: { ...planes.position, stage: "docs" },
  }));
  scene.forge.issue = { ...ISSUE, labels: ["feature", "state:docs"] };
  const { plan } = await scene.plan({ freshness, chosen: sequence });
  expect(plan).toMatchObject({ kind: "warn" });
  expect("actions" in plan && plan.actions.map(({ kind }) => kind)).not.toContain("move_stage");
});

test("files that somebody changed are shown and asked about; accepted they stay, or they are put back", async () => {
  const scene = await standAt("implementing");
  scene.worktree().write("work.txt", "by hand\n");
  const { plan } = await scene.plan({ freshness });
  expect(plan).toMatchObject({ kind: "ask", hint: expect.stringContaining("--accept files_changed") });
  const [judgement] = plan.kind === "ask" ? plan.judgements : [];
  expect(judgement?.finding.diff).toMatch(/-half done\n\+by hand/);
  expect((await scene.plan({ freshness, answers: { files_changed: "accept" } })).plan.kind).toBe("warn");
  await scene.resume({ freshness, answers: { files_changed: "put_back" } });
  expect(scene.worktree().read("work.txt")).toBe("half done\n");
});
