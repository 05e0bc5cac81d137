import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { finish, pass } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Bench } from "./bench.ts";

const BRANCH = "holdfast/issue-1-bench";
const answers = [
  finish({ iteration: 1 }),
  finish({ iteration: 2, text: "HELLO\n" }),
  finish({ text: "HELLO!\n" }),
  pass,
];

/** Reviewers look at the pull request as soon as it exists. */
async function review(bench: Bench, reviews: readonly object[]): Promise<void> {
  const number = 2;
  await writeFile(join(bench.forge.location, "pulls", `${number}.reviews.json`), JSON.stringify(reviews));
}

async function untilOpened(bench: Bench): Promise<void> {
  const stop = new AbortController();
  const outcome = await bench.work({
    signal: stop.signal,
    listen: (event) => void (event.kind === "stage_ended" && event.event === "pr_pass" && stop.abort()),
  });
  expect(outcome).toEqual({ kind: "interrupted" });
}

const louder = { author: "ada", state: "changes_requested", body: "Say it louder." };

test("a reviewer that crashes gives no verdict: the run waits, and the implementer works once", async () => {
  const crashing = { when: { role: "review" }, edits: [{ do: "wait", ms: 1 }], exit: 3 };
  await using bench = await makeBench({ answers: [finish(), crashing] });
  expect(await bench.work()).toMatchObject({ kind: "waiting", reason: expect.stringContaining("exit 3") });
  expect((await bench.planes()).position).toMatchObject({ stage: "review", iteration: 1 });
  await writeFile(join(bench.root, "script.yaml"), JSON.stringify({ answers: [finish(), pass] }));
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.trail()).filter((line) => line.startsWith("impl:"))).toHaveLength(1);
});

describe("reviews of users", () => {
  test("a requested change is made in one more iteration, and requested once", async () => {
    await using bench = await makeBench({ answers, options: { waitForCi: true } });
    await untilOpened(bench);
    await review(bench, [louder, { author: "bob", state: "commented", body: "Nice." }]);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "show", `${BRANCH}:greeting.txt`)).toBe("HELLO");
    const prompt = await bench.read(".tmp/impl-input-2.txt");
    expect(prompt).toContain("ada:\nSay it louder.");
    // What a reviewer writes is data: it is inside a fence of the prompt's own nonce.
    expect(prompt).toMatch(/<data-([0-9a-f]{16}) source="[^"]*">[^<]*ada:\nSay it louder\.[^<]*<\/data-\1>/);
    expect((await bench.trail()).filter((line) => line.startsWith("ci:"))).toEqual(["ci:ci_fail", "ci:ci_pass"]);
    const { appliedReviews, history } = await bench.state();
    expect(appliedReviews).toEqual(["1"]);
    expect(history.find(({ event }) => event === "ci_fail")?.reason).toMatch(/asked for by ada/);
    expect(await bench.pulls()).toBe(1);
  });

  test("with the option, the run leaves reviews to users; a dismissed one is ignored in any case", async () => {
    await using deaf = await makeBench({ answers, options: { waitForCi: true, applyReviews: false } });
    await untilOpened(deaf);
    await review(deaf, [louder]);
    expect(await deaf.work()).toMatchObject({ kind: "done" });
    await using bench = await makeBench({ answers, options: { waitForCi: true } });
    await untilOpened(bench);
    await review(bench, [louder, { ...louder, state: "approved", body: "Never mind." }]);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    for (const one of [deaf, bench]) expect((await one.planes()).position.iteration).toBe(1);
  });
});
