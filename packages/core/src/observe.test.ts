import { expect, onTestFinished, test } from "vitest";
import { RUN, type StoppedRun, createStoppedRun } from "@holdfast/test-support/core/resume-scene";
import { alterEntries } from "@holdfast/test-support/edit-store";
import { openSqliteStore } from "./store-sql/open.ts";
import type { NewEntry } from "./journal.ts";
import { applyResumeCheck } from "./resume.ts";
import type { Store } from "./store.ts";

const note = (text: string): NewEntry => ({ kind: "note", body: { text } });

/** The scene's run on disk: an old entry, a checkpoint, and an entry after it. */
async function saveOnDisk(scene: StoppedRun): Promise<string> {
  const directory = scene.repo.path(".git/holdfast");
  const store = await openSqliteStore({ directory, create: true });
  await store.createRun({ id: RUN, workflow: "impl", work: { kind: "issue", number: 42 } });
  const lease = await store.takeLease({ run: RUN, label: "test" });
  await store.commit({ lease, entries: [note("the old entry")] });
  const { planes } = await scene.newest();
  await store.commit({ lease, checkpoint: { trigger: "stage", planes } });
  await store.commit({ lease, entries: [note("the new entry")] });
  await store.close();
  return directory;
}

async function reopen(directory: string): Promise<Store> {
  const store = await openSqliteStore({ directory });
  onTestFinished(async () => store.close());
  return store;
}

test.each(["the old entry", "the new entry"])("%s was altered: a resume asks, once", async (text) => {
  const scene = await createStoppedRun();
  const directory = await saveOnDisk(scene);
  expect(alterEntries(directory, text, text.replace("entry", "ENTRY"))).toBe(1);
  const store = await reopen(directory);
  const adapters = { ...scene.adapters, store };
  const planned = await scene.plan({ adapters });
  expect(planned.plan).toMatchObject({
    kind: "ask",
    why: expect.stringMatching(/The journal of run .* is damaged: The chain breaks at entry \d+/),
    hint: expect.stringContaining("--accept journal_damaged"),
  });
  const accepted = await scene.plan({ adapters, answers: { journal_damaged: "accept" } });
  expect(accepted.plan.kind).toBe("warn");
  const lease = await store.takeLease({ run: RUN, label: "test" });
  await applyResumeCheck({ adapters, lease, planned: accepted });
  expect((await scene.plan({ adapters })).plan.kind).toBe("resume");
});

test("an unaltered journal is not a finding", async () => {
  const scene = await createStoppedRun();
  const store = await reopen(await saveOnDisk(scene));
  expect((await scene.plan({ adapters: { ...scene.adapters, store } })).plan).toMatchObject({
    kind: "resume",
    judgements: [],
  });
});
