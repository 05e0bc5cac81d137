import { describe, expect, test } from "vitest";
import { readProcessTable } from "@holdfast/platform/process-tree";
import { finish, pass } from "./answers.ts";
import { makeBench } from "./bench.ts";

const RUN = "issue-1-bench";

describe("the output of an agent", () => {
  test("is in the checkpoint of its call, with position, files and effects", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const [saved] = await bench.store.listCheckpoints({ run: RUN, trigger: "artifact_complete" });
    const { planes } = await bench.store.getCheckpoint({ run: RUN, sequence: saved?.sequence ?? 0 });
    const { conversation } = planes;
    expect(conversation).toMatchObject({
      agent: "scripted",
      session: null,
      lastMessage: expect.stringMatching(/^scripted-\d+$/),
    });
    expect(conversation?.transcript?.text).toContain("I wrote greeting.txt.");
    expect(conversation?.transcript?.bytes).toBe(Buffer.byteLength(conversation?.transcript?.text ?? ""));
    expect(planes.files?.artifacts.map(({ path }) => path)).toContain("greeting.txt");
  });
});

describe("an agent that falls silent", () => {
  test("is ended with all that it started, tried again, and costs no iteration", async () => {
    const hangs = {
      when: { role: "impl", attempt: 1 },
      edits: [{ do: "write", path: "half.txt", text: "half\n" }],
      spawn: { ignoreTerm: true },
      hang: true,
    };
    await using bench = await makeBench({ answers: [hangs, finish(), pass], agentIdleMs: 2500 });
    const failed: string[] = [];
    const outcome = await bench.work({
      listen: (event) => {
        if (event.kind !== "step_failed") return;
        failed.push(event.reason);
        const left = (readProcessTable()?.live ?? []).filter(({ mark }) => mark?.includes(`/${RUN}/`) === true);
        expect(left).toEqual([]);
      },
    });
    expect(outcome).toMatchObject({ kind: "done" });
    expect(failed[0]).toMatch(/^hang: the scripted agent printed nothing for 2\.5 s/);
    expect((await bench.planes()).position.iteration).toBe(1);
    expect(await bench.git("remote", "ls-tree", "--name-only", `holdfast/${RUN}`)).toBe("greeting.txt\nreadme.md");
  });
});

describe("changes of an agent to its working directory", () => {
  test.each([
    ["a file", { do: "write", path: ".tmp", text: "x" }],
    ["gone", null],
  ])("puts %s where .tmp was: the run continues, and nothing of it is committed", async (_name, put) => {
    const first = {
      when: { role: "impl", iteration: 1 },
      edits: [{ do: "delete", path: ".tmp" }, ...(put === null ? [] : [put])],
      reply: "cleaned up",
    };
    await using bench = await makeBench({ answers: [first, finish(), pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "ls-tree", "--name-only", `holdfast/${RUN}`)).toBe("greeting.txt\nreadme.md");
  });

  test("a finalize file that is too large is reported as such", async () => {
    const large = { ...finish({ iteration: 1, body: "x".repeat(1024 * 1024) }) };
    await using bench = await makeBench({ answers: [large, finish(), pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const entries = await Array.fromAsync(bench.store.readJournal({ run: RUN }));
    const ended = entries.find(({ kind, body }) => kind === "stage.ended" && body["event"] === "impl_not_done");
    expect(ended?.body["reason"]).toMatch(/^\.tmp\/finalize\.txt cannot be read: .* bytes, more than 1048576/);
  });
});
