import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";
import { canFakeTerminal, typeInTerminal } from "@holdfast/test-support/typed-terminal";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });
let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
});
afterAll(() => journey.holdfast.remove());

const LINES = Array.from({ length: 40 }, (_, at) => `line ${at}\n`);
const text = (change: Readonly<Record<number, string>>): string => LINES.map((line, at) => change[at] ?? line).join("");
const read = (path: string): string => readFileSync(join(journey.repository(), path), "utf8");

/** Checkpoint mine@1 has the plain lines; the worktree has two changes in one file, and a new file. */
beforeEach(async () => {
  await journey.begin();
  await journey.write("src/list.txt", text({}));
  await journey.json("checkpoint", "--run", "mine");
  await journey.write("src/list.txt", text({ 3: "changed\n", 30: "\u001b[31mchanged too\n" }));
  await journey.write("new.txt", "new\n");
});

describe.skipIf(!canFakeTerminal())("at a terminal", () => {
  const restore = async (answers: readonly string[], ...words: readonly string[]) =>
    await typeInTerminal({
      command: [process.execPath, journey.holdfast.entry, "restore", "mine@1", "-p", ...words].join(" "),
      cwd: journey.repository(),
      env: { HOME: journey.holdfast.directory, HOLDFAST_TRUST: "1" },
      answers: answers.map((answer) => `${answer}\r`),
      question: /\[y,n,q,a,d,\?\]\?/,
    });

  test("only the chosen part is restored, the index is not touched, and the restore can be undone", async () => {
    const edited = read("src/list.txt");
    const index = readFileSync(join(journey.repository(), ".git/index"));
    const done = await restore(["n", "?", "n", "y"]);
    expect([done.status, done.output]).toEqual([
      0,
      expect.stringContaining("apply this part and the rest of the file"),
    ]);
    expect(done.output).not.toContain("\u001b[31mchanged too");
    expect(read("src/list.txt")).toBe(text({ 3: "changed\n" }));
    expect(read("new.txt")).toBe("new\n");
    expect(readFileSync(join(journey.repository(), ".git/index"))).toEqual(index);
    const { checkpoints } = await journey.json("list", "mine");
    expect(checkpoints.map(({ trigger }: { trigger: string }) => trigger)).toEqual([
      "restore",
      "before_restore",
      "manual",
    ]);
    await journey.json("restore", "mine@2", "--yes");
    expect(read("src/list.txt")).toBe(edited);
  });

  test("a takes the rest of the file, q stops, d leaves the file, and none changes nothing", async () => {
    const edited = read("src/list.txt");
    expect((await restore(["n", "q"])).output).toContain("Nothing was chosen");
    expect((await restore(["d", "d"], "--", "src", "new.txt")).output).toContain("Nothing was chosen");
    expect(read("src/list.txt")).toBe(edited);
    expect(await restore(["a"], "--", "src")).toMatchObject({ status: 0 });
    expect([read("src/list.txt"), read("new.txt")]).toEqual([text({}), "new\n"]);
  });
});

test("without a terminal, and with flags that ask nothing, it is a usage error", async () => {
  const edited = read("src/list.txt");
  expect(await journey.fails(2, "restore", "mine@1", "-p")).toContain("terminal");
  expect(await journey.fails(2, "restore", "mine@1", "--patch", "--yes")).toContain("--yes");
  expect(await journey.fails(2, "restore", "mine@1", "-p", "--only", "state")).toContain("--only state");
  expect(read("src/list.txt")).toBe(edited);
});
