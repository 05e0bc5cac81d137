import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JournalEntry } from "../../core/journal/journal.ts";
import { describeEnvironment } from "../../core/replay/environment.ts";
import { parseRecordedCall } from "../../core/replay/recorded-call.ts";
import { pureSha256 } from "../../core/sha256.ts";
import { createCrashingStore } from "../../testing/crashing-store.ts";
import { sampleBySeed } from "../../testing/sample-by-seed.ts";
import { ID, begin, define, worked } from "../../testing/toy-run.ts";
import { startInWorktree } from "../../testing/toy-worktree.ts";
import { recordingParts } from "./recording-parts.ts";
import { Tape } from "./tape.ts";

const tape = (): Tape =>
  new Tape({ environment: () => describeEnvironment({ LANG: "C" }, pureSha256), mask: (text) => text });

const flow = define({
  work: async (context) => {
    await context.agent({ name: "edit", role: "impl", prompt: "p", model: null, yolo: true });
    await context.agent({ name: "read", role: "review", prompt: "q", model: null, yolo: true, changesFiles: false });
    return await worked(context);
  },
});

/** A call's record and the end of its step stand in one commit: whatever is found, is found together. */
function pairs(entries: readonly JournalEntry[]): readonly string[] {
  return entries.flatMap((entry, at) => {
    if (entry.kind === "call.recorded") {
      const call = parseRecordedCall(entry);
      const next = entries[at + 1];
      expect(next?.kind).toMatch(/^step\.(?:finished|failed)$/);
      expect(next?.body).toMatchObject({ step: call.kind === "agent" ? call.step : "" });
      expect(next?.at).toBe(entry.at);
    }
    if (entry.kind !== "step.finished") return [];
    expect(entries[at - 1]?.kind, `before the end of ${String(entry.body["step"])}`).toBe("call.recorded");
    return [String(entry.body["step"])];
  });
}

/** Every commit of the run, and both sides of it. */
const DEATHS = Array.from({ length: 9 }, (_, nth) => nth + 1).flatMap((at) =>
  (["before", "after"] as const).map((moment) => ({ name: `${moment} commit ${at}`, at, moment })),
);

test.each(sampleBySeed(DEATHS, 4))(
  "killed $name, a call is recorded whole or not at all, and a try that failed is recorded too",
  async ({ at, moment }) => {
    let calls = 0;
    const toy = await startInWorktree((task, root) => {
      calls += 1;
      if (calls === 1) return { kind: "failed", cause: "overload", message: "later" };
      if (task.role === "impl") writeFileSync(join(root, "b.txt"), "new\n");
      return {};
    });
    await begin(toy.parts, flow, toy.workspace);
    const { promise, resolve } = Promise.withResolvers<void>();
    const dying = createCrashingStore(toy.store, { at, moment, die: resolve });
    await Promise.race([promise, toy.go(flow, { parts: recordingParts({ ...toy.parts, store: dying }, tape()) })]);
    const read = (): Promise<readonly JournalEntry[]> => Array.fromAsync(toy.store.readJournal({ run: ID }));
    pairs(await read());
    await toy.go(flow, { parts: recordingParts(toy.parts, tape()) });
    expect(pairs(await read())).toEqual(["edit", "read"]);
  },
);
