import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();

const MESSAGE = "Claude Code was not allowed to use Bash";
const denied = (iteration: number) => ({
  when: { role: "impl", iteration },
  edits: [{ do: "write", path: `try-${iteration}.txt`, text: "1\n" }],
  fail: { cause: "permission_denied", message: MESSAGE },
});

async function notes(place: WorkPlace): Promise<readonly string[]> {
  const { entries } = await place.json("log", "issue-1", "--limit", "all");
  return entries.flatMap((entry: { readonly kind: string; readonly body: { readonly text?: string } }) =>
    entry.kind === "note" ? [entry.body.text ?? ""] : [],
  );
}

test("what was denied is in the output, the journal and the summary, with the flag that allows it", async () => {
  const place = await work.begin();
  const agent = await place.agent([denied(1), GOOD]);
  const done = await place.run("run", "1", "--no-review", "--agent", agent);
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(done.stdout).toMatch(/^\S+ +Denied: Claude Code was not allowed to use Bash/m);
  expect(done.stdout).toMatch(/^Denied Claude Code was not allowed to use Bash. --yolo allows it.$/m);
  expect(await notes(place)).toContainEqual(expect.stringContaining(`Denied: ${MESSAGE}`));
  expect(await place.json("status", "issue-1")).toMatchObject({ denied: [MESSAGE] });
});

test("the same denial twice is a question, not another iteration; allow answers it for the rest of the run", async () => {
  const place = await work.begin();
  const agent = await place.agent([denied(1), denied(2), denied(3)]);
  const asked = await place.run("run", "1", "--no-review", "--agent", agent);
  expect(asked.status, asked.stdout + asked.stderr).toBe(4);
  expect(asked.stdout).toMatch(/Waiting for you issue-1: The same was denied in two calls/);
  expect(asked.stdout).toContain("or: holdfast approve issue-1 continue\n");
  // Asked again, and nothing is paid for: the question stands.
  expect(await place.run("resume", "issue-1")).toMatchObject({ status: 4 });
  const calls = async () => {
    const { entries } = await place.json("log", "issue-1", "--limit", "all");
    return entries.filter(({ kind }: { readonly kind: string }) => kind === "step.started").length;
  };
  const before = await calls();
  expect(await place.run("approve", "issue-1", "allow")).toMatchObject({ status: 0 });
  await place.agent([{ ...GOOD, when: { role: "impl", yolo: true } }, denied(3)]);
  const done = await place.run("resume", "issue-1");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(await calls()).toBeGreaterThan(before);
});

test("stop ends the run with what was denied as the reason", async () => {
  const place = await work.begin();
  const agent = await place.agent([denied(1), denied(2)]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 4 });
  expect(await place.run("approve", "issue-1", "stop")).toMatchObject({ status: 0 });
  const ended = await place.run("resume", "issue-1");
  expect(ended.status).toBe(1);
  expect(ended.stdout).toContain(MESSAGE);
});
