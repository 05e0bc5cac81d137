import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { maskSecrets } from "@holdfast/core/mask";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test, vi } from "vitest";
import { openHoldfast } from "../open.ts";
import { ChangesReader, Differences, showNames } from "./changes.ts";
import { planText } from "./plan-text.ts";
import { Repositories } from "./repositories.ts";

const file = (path: string, from: string | null = null) =>
  ({ path, from, status: "added", added: 1, removed: 0 }) as const;
/** Made up, and of the form that a forge gives. */
const secret = (text: string): string => `ghp_${text.repeat(9)}`;

test("a secret in a name is masked, and each file still has a name of its own", () => {
  const files = [
    file(`${secret("a1B2")}.txt`),
    file("***.txt"),
    file("b.txt", secret("c3D4")),
    file(`${secret("e5F6")}.txt`),
  ];
  const found = showNames(files, maskSecrets);
  expect(found.map(({ shown }) => shown.path)).toEqual(["***.txt (2)", "***.txt", "b.txt", "***.txt (3)"]);
  expect(found[2]?.shown.from).toBe("***");
  expect(found.map(({ paths }) => paths)).toEqual(
    files.map(({ path, from }) => (from === null ? [path] : [path, from])),
  );
});

test("differences are computed once, and those used last are kept up to a size", async () => {
  const differences = new Differences(10);
  const computed: string[] = [];
  const get = (key: string, size: number): Promise<string> =>
    differences.of(
      key,
      (value: string) => value.length,
      () => {
        computed.push(key);
        return Promise.resolve("x".repeat(size));
      },
    );
  await get("a", 4);
  await get("b", 4);
  await get("a", 4);
  expect(computed).toEqual(["a", "b"]);
  // There is no room for all three: `b` was not used for the longest time.
  await get("c", 4);
  await get("a", 4);
  await get("b", 4);
  expect(computed).toEqual(["a", "b", "c", "b"]);
  // A failure is not kept.
  const fails = () =>
    differences.of(
      "d",
      () => 1,
      () => Promise.reject<string>(new Error("no")),
    );
  await expect(fails()).rejects.toThrow("no");
  expect(await get("d", 1)).toBe("x");
});

test("an effect is placed by its journal entry, also after the clock was set back", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.parse("2026-11-19T12:00:00Z") });
  onTestFinished(() => void vi.useRealTimers());
  const root = scratchDirectory(onTestFinished);
  execFileSync("git", ["init", "-q", root]);
  const store = join(root, ".git/holdfast");
  {
    await using holdfast = await openHoldfast({ cwd: root, store });
    const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
    const lease = await holdfast.store.takeLease({ run: "work", birth, label: "test" });
    const checkpoint = { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "impl" }) } as const;
    await holdfast.store.commit({ lease, entries: [], checkpoint });
    vi.setSystemTime(Date.parse("2026-11-19T11:00:00Z"));
    const key = "work/impl/push";
    const intended = { key, kind: "push", target: "origin main", payload: "sha256:0", detail: {} };
    const settled = { key, outcome: "done", adopted: false, receipt: null };
    const entries = [
      { kind: "effect.intended", body: intended },
      { kind: "effect.settled", body: settled },
    ] as const;
    await holdfast.store.commit({ lease, entries, checkpoint });
    await holdfast.store.releaseLease(lease);
  }
  const named = { id: "a", store, root, usedAt: "", key: "shop", name: "shop" };
  await using repositories = new Repositories({ list: () => [named], now: () => Date.now(), waits: true });
  const reader = new ChangesReader(repositories);
  const opened = await repositories.open("shop");
  const [first, second] = [await reader.checkpoint(opened, "work", 1), await reader.checkpoint(opened, "work", 2)];
  expect(first.checkpoint.createdAt > second.checkpoint.createdAt).toBe(true);
  expect([first.effects, second.effects]).toMatchObject([[], [{ state: "done", text: "push on origin main" }]]);
  expect((await reader.changes("shop/work@1", "shop/work@2")).effects).toEqual(second.effects);
  expect((await reader.changes("shop/work@1", "shop/work@1")).effects).toEqual([]);
  const found = await opened.holdfast.runWithStatus("work");
  const { lines } = planText({
    action: { kind: "restore", run: "shop/work", sequence: 1, paths: null },
    row: await opened.row(found, Date.now()),
    command: (...argv) => argv.join(" "),
    document: null,
    checkpoint: first.checkpoint,
    effects: [...(await opened.read(found.run)).effects.values()],
    unsaved: [],
  });
  expect(lines.find(({ title }) => title === "Effects")?.texts).toEqual(["Stays done: push on origin main"]);
});
