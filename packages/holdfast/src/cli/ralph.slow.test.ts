import { expect, test } from "vitest";
import { workSuite } from "./testing/work-repository.ts";

const bench = workSuite();

const write = (text: string, iteration?: number) => ({
  ...(iteration === undefined ? {} : { when: { iteration } }),
  edits: [{ do: "write", path: "answer.txt", text }],
  reply: "There.",
  usage: { input: 800, output: 200, microUsd: 5000 },
});
/** Prints as a test runner does. */
const UNTIL = 'n=$(cat answer.txt 2>/dev/null || echo 0); echo "Tests  $((9 - n)) failed | $n passed (9)"; test $n = 9';

test("a loop at its limit says so, is not begun twice, and goes on when it is allowed more", async () => {
  const place = await bench.begin();
  const agent = await place.agent([write("5\n", 1), write("3\n", 2), write("9\n")]);
  const words = [
    "run",
    "--workflow",
    "ralph",
    "--task",
    "Reach nine",
    "--until",
    UNTIL,
    "--max",
    "2",
    "--agent",
    agent,
    "--mode",
    "logged",
  ];
  const limited = await place.run(...words);
  expect(limited.status).toBe(1);
  const [, run = ""] = /^Limit reached (ralph-reach-nine-[0-9a-f]{8}):/m.exec(limited.stdout) ?? [];
  expect(limited.stdout).toContain(`Allow more: holdfast resume ${run} --max N`);
  expect(limited.stdout).toContain(`git merge holdfast/${run}`);

  const shown = await place.run("status", run);
  expect(shown.stdout).toMatch(new RegExp(`^${run}  limit reached$`, "m"));
  expect(shown.stdout).toMatch(/^loop +iteration 2 of 2 {2}✗✗$/m);
  expect(shown.stdout).toMatch(/^measured +6 of 9 tests fail, quality \d+$/m);
  expect(shown.stdout).toMatch(/^best +iteration 1, quality \d+$/m);
  expect(await place.json("status", run)).toMatchObject({
    loop: { loop: run, maxIterations: 2, best: { iteration: 1 }, iterations: [{ tests: { passed: 5 } }, {}] },
  });

  const refused = await place.run("resume", run);
  expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining(`holdfast resume ${run} --max N`)]);
  const done = await place.run("resume", run, "--max", "3");
  expect(done.stdout).toMatch(/^Done .*holds after 3 iterations/m);
  expect(done.status).toBe(0);
  // Nothing in the workflow led from the limit on; the record holds all the same.
  expect(await place.json("replay", run)).toMatchObject({ verdict: "identical", outcome: "done", iteration: 3 });

  // Done stays done, but whoever names an older checkpoint wants to go back, and is told how.
  const before = (await place.json("list", run)).checkpoints.length;
  const back = await place.run("resume", `${run}@3`);
  expect([back.status, back.stderr]).toEqual([
    4,
    expect.stringMatching(/is done since .* not taken back to checkpoint 3/),
  ]);
  expect(back.stderr).toContain(`holdfast fork ${run}@3`);
  expect(back.stderr).toContain(`holdfast resume ${run}@3 --force`);
  expect((await place.json("list", run)).checkpoints).toHaveLength(before);
  expect(await place.run("resume", `${run}@latest`)).toMatchObject({ status: 0 });

  // The same words are the same loop, also when it has ended; --again is another one.
  expect((await place.json(...words, "--dry-run")).plan).toMatchObject({ id: run, earlier: { id: run } });
  const { plan } = await place.json(...words, "--dry-run", "--again");
  expect(plan).toMatchObject({ id: expect.not.stringMatching(run), earlier: null });
}, 120_000);

test("while it waits for an answer it is under way: the same words do not begin it again", async () => {
  const place = await bench.begin();
  const agent = await place.agent([write("1\n")]);
  const words = ["run", "--workflow", "ralph", "--task", "Ask", "--until", "nothing-of-this-name", "--agent", agent];
  const parked = await place.run(...words);
  expect([parked.status, parked.stdout]).toEqual([
    4,
    expect.stringMatching(/holdfast approve ralph-ask-\w+ go-on\n +or: holdfast approve ralph-ask-\w+ stop/),
  ]);
  const again = await place.run(...words);
  expect([again.status, again.stderr]).toEqual([4, expect.stringContaining("There is a run for this already")]);
  expect((await place.run(...words, "--resume")).status).toBe(4);
}, 120_000);
