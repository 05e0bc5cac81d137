import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import { begin, define, ID } from "../../testing/toy-run.ts";
import type { State } from "../../testing/toy-run.ts";
import { startInWorktree } from "../../testing/toy-worktree.ts";
import type { ToyWorktree } from "../../testing/toy-worktree.ts";
import type { EffectSpec, StageFunction } from "../stage-context.ts";

const sending = (more: Partial<EffectSpec<string>> = {}): EffectSpec<string> => ({
  purpose: "send",
  kind: "message",
  target: "them",
  payload: "hello",
  lookUp: async () => ({ kind: "absent" }),
  act: async () => ({ kind: "done", receipt: "sent" }),
  ...more,
});

/** What the stage's own checkpoints are, in order: what a transition takes is left out. */
async function triggersOf(toy: ToyWorktree, work: StageFunction<State>): Promise<readonly Trigger[]> {
  const workflow = define({ work }, { reduce: (state, event) => ({ seen: [...state.seen, String(event)] }) });
  await begin(toy.parts, workflow, toy.workspace);
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  const listed = await toy.store.listCheckpoints({ run: ID });
  return listed
    .toReversed()
    .map(({ trigger }) => trigger)
    .filter((trigger) => trigger !== "stage");
}

const worked = { event: "worked", reason: "did it" };

test("before a call to the outside, when there is something that no checkpoint holds: files, values, what was said", async () => {
  for (const change of ["file", "value", "agent"] as const) {
    const toy = await startInWorktree();
    const triggers = await triggersOf(toy, async (context) => {
      if (change === "file") toy.file("new.txt", "made by a plain step");
      if (change === "value") await context.record("seen", "it");
      if (change === "agent")
        await context.agent({ name: "ask", role: "r", prompt: "p", model: null, yolo: false, changesFiles: false });
      await context.effect(sending());
      return worked;
    });
    expect(triggers, change).toEqual(["before_external"]);
    const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
    expect(saved).toMatchObject({ name: "message on them", sequence: 2 });
    const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
    const intent = journal.findIndex(({ kind }) => kind === "effect.intended");
    expect(journal[intent]?.body).toMatchObject({ detail: { before: 2 } });
    // One commit: nothing comes between them.
    expect(journal[intent + 1]).toMatchObject({ kind: "checkpoint" });
  }
});

test("where the newest checkpoint holds it all, none is taken, and the intent names that one", async () => {
  const toy = await startInWorktree();
  const triggers = await triggersOf(toy, async (context) => {
    await context.step("look", () => "plain steps are in the journal");
    await context.effect(sending());
    await context.effect(sending({ purpose: "again", risk: "twice" }));
    await context.step("risky", () => null, { risk: "as it stands" });
    return worked;
  });
  expect(triggers).toEqual([]);
  const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
  const intents = journal.filter(({ kind }) => kind === "effect.intended");
  expect(intents.map(({ body }) => body["detail"])).toEqual([
    { payload: "hello", before: 1 },
    { payload: "hello", before: 1 },
  ]);
});

test("before what is risky, in a step or outside; switched off, none", async () => {
  for (const isOn of [true, false]) {
    const toy = await startInWorktree();
    const switches = { artifactComplete: true, beforeExternal: isOn, beforeRisky: isOn };
    Object.assign(toy.parts, { checkpoints: switches });
    const triggers = await triggersOf(toy, async (context) => {
      toy.file("a.txt", "one change");
      await context.step("rebase", () => null, { risk: "rebase of topic", changesFiles: true });
      toy.file("a.txt", "another");
      await context.effect(sending({ risk: "push over main" }));
      toy.file("a.txt", "a third");
      await context.effect(sending({ purpose: "tell" }));
      return worked;
    });
    expect(triggers).toEqual(isOn ? ["before_risky", "automatic", "before_risky", "before_external"] : ["automatic"]);
    const names = (await toy.store.listCheckpoints({ run: ID, trigger: "before_risky" })).map(({ name }) => name);
    expect(names).toEqual(isOn ? ["push over main", "rebase of topic"] : []);
  }
});

test("an artifact is complete when everything that was to be delivered is there", async () => {
  const deliver = (root: string, ...names: readonly string[]): void => {
    for (const name of names) writeFileSync(join(root, name), name);
  };
  const toy = await startInWorktree((task, root) => {
    deliver(root, ...(task.prompt === "all" ? ["plan.md", "notes.md"] : ["plan.md"]));
    return {};
  });
  const { root } = toy.workspace;
  const triggers = await triggersOf(toy, async ({ agent, step }) => {
    const call = { role: "r", model: null, yolo: false, collect: ["plan.md", "notes.md"] };
    await agent({ ...call, name: "half", prompt: "half" });
    await agent({ ...call, name: "all", prompt: "all" });
    const artifacts = ["schema.json"];
    await step("draft", () => deliver(root, "draft.json") ?? null, { changesFiles: true, artifacts });
    await step("final", () => deliver(root, "schema.json") ?? null, { changesFiles: true, artifacts });
    return worked;
  });
  expect(triggers).toEqual(["agent_complete", "artifact_complete", "automatic", "artifact_complete"]);
});

test("what the process before found out is held by no checkpoint either: killed behind it, the one before the call is taken all the same", async () => {
  for (const change of ["value", "agent", "graph"] as const) {
    const toy = await startInWorktree();
    const workflow = define(
      {
        work: async (context) => {
          if (change === "value") await context.record("seen", "it");
          if (change === "agent")
            await context.agent({ name: "ask", role: "r", prompt: "p", model: null, yolo: false, changesFiles: false });
          if (change === "graph") await context.graph.set(sampleGraph([sampleNode("a")]));
          await context.effect(sending());
          return worked;
        },
      },
      { reduce: (state, event) => ({ seen: [...state.seen, String(event)] }) },
    );
    await begin(toy.parts, workflow, toy.workspace);
    // The commit in which the change is. A call starts first; when that was lost, the run is resumed and the lost call counted.
    for (const at of [1, 2, 2, 2]) {
      const seen = await toy.kinds();
      if (seen.includes("step.finished") || seen.includes("graph.set")) break;
      await toy.crash(workflow, at, "after");
    }
    expect(await toy.store.listCheckpoints({ run: ID }), change).toHaveLength(1);
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
    expect(saved, change).toMatchObject({ name: "message on them", sequence: 2 });
    const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
    const intent = journal.find(({ kind }) => kind === "effect.intended");
    expect(intent?.body, change).toMatchObject({ detail: { before: 2 } });
  }
});

test("an intent and the checkpoint before it are one act: killed in between, both are there or neither, and it is done once", async () => {
  for (const moment of ["before", "after"] as const) {
    let acts = 0;
    const toy = await startInWorktree();
    const workflow = define({
      work: async (context) => {
        await context.step("write", () => (toy.file("new.txt", "x"), null));
        await context.effect(sending({ act: async () => ((acts += 1), { kind: "done", receipt: "sent" }) }));
        return worked;
      },
    });
    await begin(toy.parts, workflow, toy.workspace);
    // The step, then the intent with its checkpoint.
    expect(await toy.crash(workflow, 2, moment)).toBe("died");
    const saved = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
    const intended = (await toy.kinds()).filter((kind) => kind === "effect.intended");
    expect([saved.length, intended.length]).toEqual(moment === "before" ? [0, 0] : [1, 1]);
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    expect(acts).toBe(1);
  }
});
