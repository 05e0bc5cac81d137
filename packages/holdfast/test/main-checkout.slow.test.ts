import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { GOOD, workSuite } from "@holdfast/test-support/cli-repositories";

const work = workSuite();

/** Does what a good agent does, and something else before it. */
const straying = (lines: readonly string[]): string =>
  `command:${[
    ...lines,
    "echo 42 > answer.txt",
    "echo Answer > $HOLDFAST_FINALIZE_FILE",
    "echo $HOLDFAST_COMPLETION >> $HOLDFAST_FINALIZE_FILE",
  ].join("; ")}`;

describe("an agent that changes the user's main checkout", () => {
  test("a file, a branch and a hook: shown and asked about once, then the run continues", async () => {
    const place = await work.begin();
    const agent = straying([
      `echo stray > ${place.clone}/stray.txt`,
      `git -C ${place.clone} branch stray`,
      `mkdir -p ${place.clone}/.git/hooks`,
      `echo exit 0 > ${place.clone}/.git/hooks/pre-push`,
    ]);
    const asked = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(asked, JSON.stringify(asked, null, 2)).toMatchObject({ status: 4 });
    expect(asked.stdout.replaceAll(/\s+/g, " ")).toMatch(
      /changed during the call of the agent \(agent\): refs\/heads\/stray, stray\.txt, \.git\/hooks\/pre-push/,
    );
    const again = await place.run("resume", "1");
    expect(again).toMatchObject({ status: 4 });
    expect(await place.run("approve", "issue-1", "continue")).toMatchObject({ status: 0 });
    const done = await place.run("resume", "1");
    expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
    const { entries } = await place.json("events", "issue-1", "--limit", "all");
    const waiting = entries.filter((entry: { readonly kind: string }) => entry.kind === "run.waiting");
    expect(waiting).toHaveLength(1);
  });

  test("HEAD that it moves is shown; where changes are only reported, the run is done at once", async () => {
    const place = await work.begin();
    await writeFile(join(place.clone, "holdfast.config.yaml"), "workspace: { mainCheckout: report }\n");
    const agent = straying([`git -C ${place.clone} checkout -q -b elsewhere`]);
    const done = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
    expect(`${done.stdout}${done.stderr}`.replaceAll(/\s+/g, " ")).toMatch(
      /changed during the call of the agent \(agent\): HEAD/,
    );
  });

  test("in a try that failed: asked about before the agent is called again, and once", async () => {
    const place = await work.begin();
    const calls = join(dirname(place.clone), "calls");
    const agent = straying([
      `echo call >> ${calls}`,
      `if [ "$(wc -l < ${calls})" = 1 ]; then echo stray > ${place.clone}/stray.txt; echo retry-after: 1 >&2; exit 75; fi`,
    ]);
    let asked = await place.run("run", "1", "--no-review", "--agent", agent);
    // Whether the run waits for the later try in this process or exits meanwhile is the error policy's business.
    while (asked.status === 7) asked = await place.run("resume", "1");
    expect(asked, JSON.stringify(asked, null, 2)).toMatchObject({ status: 4 });
    expect(asked.stdout.replaceAll(/\s+/g, " ")).toMatch(/changed during the call of the agent \(agent\): stray\.txt/);
    expect(readFileSync(calls, "utf8")).toBe("call\n");
    // The user's own change while the run waits is not part of it.
    await writeFile(join(place.clone, "mine.txt"), "mine\n");
    expect(await place.run("approve", "issue-1", "continue")).toMatchObject({ status: 0 });
    const done = await place.run("resume", "1");
    expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
    expect(readFileSync(calls, "utf8")).toBe("call\ncall\n");
    const { entries } = await place.json("events", "issue-1", "--limit", "all");
    const onPerson = entries.filter(
      (entry: { readonly kind: string; readonly body: { readonly for?: string } }) =>
        entry.kind === "run.waiting" && entry.body.for === "you",
    );
    expect(onPerson).toHaveLength(1);
  });

  test("a checkout with changes of the user's own that stay as they are is no reason to ask", async () => {
    const place = await work.begin();
    await writeFile(join(place.clone, "draft.txt"), "mine\n");
    const agent = await place.agent([GOOD]);
    const done = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
  });
});
