import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, begin, createCrashingStore, define, worked } from "@holdfast/test-support/core/work-bench";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import type { JournalEntry } from "./journal.ts";
import { sha256 } from "./json.ts";
import { recordingParts } from "./record-run.ts";
import { CallRecorder, changedVariables, describeEnvironment, parseRecordedCall } from "./recorded-calls.ts";

describe("environment", () => {
  const variables = fc.dictionary(fc.stringMatching(/^[A-Z]{3,8}$/), fc.string({ maxLength: 8 }), { maxKeys: 6 });
  const describe = (of: Readonly<Record<string, string>>) => describeEnvironment(of, sha256);

  test("the hash covers the variables, in any order", () => {
    fc.assert(
      fc.property(variables, (of) => {
        const turned = Object.fromEntries(Object.entries(of).toReversed());
        expect(describe(turned)).toEqual(describe(of));
        const more = { ...of, ZZ_NEW: "1" };
        expect(describe(more).hash).not.toBe(describe(of).hash);
        expect(changedVariables(describe(of).values, describe(more).values)).toEqual(["ZZ_NEW"]);
      }),
    );
  });

  test("terminals, sessions and our own variables are excluded", () => {
    const of = { LANG: "C" };
    const here = {
      ...of,
      PWD: "/a",
      SHLVL: "3",
      SSH_TTY: "/dev/1",
      HOLDFAST_MARK: "x",
      npm_command: "run",
      TERM: "dumb",
    };
    expect(describe(here)).toEqual(describe(of));
  });

  test("a secret's value is stored nowhere, not even in the hash", () => {
    const [a, b] = ["first-secret-value", "other-secret-value"].map((secret) =>
      describe({ API_KEY: secret, URL: `https://x/?k=${secret}`, SHORT_TOKEN: secret.slice(0, 3) }),
    );
    expect(a).toEqual(b);
    expect(JSON.stringify(a)).not.toMatch(/secret-value|"fir"/);
    expect(a?.values).toMatchObject({ API_KEY: "***", SHORT_TOKEN: "***" });
  });
});

describe("recorder", () => {
  const recorder = (): CallRecorder =>
    new CallRecorder({ environment: () => describeEnvironment({ LANG: "C" }, sha256), mask: (text) => text });

  const flow = define({
    work: async (context) => {
      await context.agent({ name: "edit", role: "impl", prompt: "p", model: null, yolo: true });
      await context.agent({ name: "read", role: "review", prompt: "q", model: null, yolo: true, changesFiles: false });
      return await worked(context);
    },
  });

  /** A call's record and the end of its step are in one commit, so they are always found together. */
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

  /** Before and after every commit of the run. */
  const DEATHS = Array.from({ length: 9 }, (_, nth) => nth + 1).flatMap((at) =>
    (["before", "after"] as const).map((moment) => ({ name: `${moment} commit ${at}`, at, moment })),
  );

  test.each(sampleBySeed(DEATHS, 4))(
    "killed $name, a call is recorded completely or not at all, and a failed attempt is recorded too",
    async ({ at, moment }) => {
      let calls = 0;
      const toy = await startTestRunInWorktree((task, root) => {
        calls += 1;
        if (calls === 1) return { kind: "failed", cause: "overload", message: "later" };
        if (task.role === "impl") writeFileSync(join(root, "b.txt"), "new\n");
        return {};
      });
      await begin(toy.adapters, flow, toy.workspace);
      const { promise, resolve } = Promise.withResolvers<void>();
      const dying = createCrashingStore(toy.store, { at, moment, die: resolve });
      await Promise.race([
        promise,
        toy.go(flow, { adapters: recordingParts({ ...toy.adapters, store: dying }, recorder()) }),
      ]);
      const read = (): Promise<readonly JournalEntry[]> => Array.fromAsync(toy.store.readJournal({ run: ID }));
      pairs(await read());
      await toy.go(flow, { adapters: recordingParts(toy.adapters, recorder()) });
      expect(pairs(await read())).toEqual(["edit", "read"]);
    },
  );
});
