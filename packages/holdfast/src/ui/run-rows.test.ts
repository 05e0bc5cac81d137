import { expect, test } from "vitest";
import { groupOf, lastSaid } from "./run-rows.ts";

/** Logs by the name of their step, the newest last. */
function logs(texts: Readonly<Record<string, string>>): Parameters<typeof lastSaid>[0] {
  const files = Object.entries(texts).map(([step, text], at) => ({
    path: step,
    step,
    stageAttempt: step.startsWith("console") ? 0 : 1,
    bytes: Buffer.byteLength(text),
    modifiedAt: `2026-11-18T07:00:0${at}.000Z`,
  }));
  return {
    list: () => Promise.resolve(files),
    read: ({ step }, start) => {
      const lines = Buffer.from(texts[step] ?? "")
        .subarray(start)
        .toString()
        .split("\n");
      return Promise.resolve({ lines, next: 0 });
    },
  };
}

test("the last line is that of the newest log, without commands to a terminal", async () => {
  expect(await lastSaid(logs({}), "a")).toBeNull();
  expect(await lastSaid(logs({ one: "old\n", two: "first\n\u001b[32mediting a.ts\u001b[0m\n\n" }), "a")).toBe(
    "editing a.ts",
  );
  expect(await lastSaid(logs({ one: `${"x".repeat(9000)}\nshort\n` }), "a")).toBe("short");
});

test("where the agent writes JSON, the process in the background says it in words", async () => {
  const json = '{"type":"edit"}\n';
  expect(
    await lastSaid(logs({ console: "before\n", "console-2": "write: a.ts\n", older: "words\n", agent: json }), "a"),
  ).toBe("write: a.ts");
  expect(await lastSaid(logs({ agent: json }), "a")).toBeNull();
});

test("a failed run needs the user for seven days, unless the user stopped it", () => {
  const at = "2026-11-18T07:00:00.000Z";
  const now = Date.parse(at);
  const group = (reason: string, days: number) =>
    groupOf(
      { run: { unfinishedRestore: null }, status: { kind: "failed", reason, at, limit: false }, continues: null },
      now + days * 86_400_000,
    );
  expect([group("npm test fails", 1), group("npm test fails", 8)]).toEqual(["you", "finished"]);
  expect(group("Stopped by you: npm test fails", 1)).toBe("finished");
});

test("a restore that a live process may still finish is not reported as half done", () => {
  const run = { unfinishedRestore: "a@1" };
  const owner = { label: "holdfast", pid: 1, host: "b", epoch: 1, takenAt: "", heartbeatAt: "" };
  const states = { starting: false, finishing: false, stopping: null, silentSince: null, suspended: false } as const;
  const group = (status: Parameters<typeof groupOf>[0]["status"]) => groupOf({ run, status, continues: null }, 0);
  expect(group({ kind: "running", holder: owner, ...states, hostKnown: false })).toBe("running");
  expect(group({ kind: "queued", holder: owner, position: 1 })).toBe("waiting");
  expect(group({ kind: "saved", holder: owner })).toBe("finished");
  expect(group({ kind: "saved", holder: null })).toBe("you");
  expect(group({ kind: "crashed", certain: true, holder: owner })).toBe("you");
});
