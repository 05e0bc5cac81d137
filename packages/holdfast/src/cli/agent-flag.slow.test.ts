import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultCrunchSettings } from "../core/crunch/default-settings.ts";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const suite = workSuite();

const REVIEW = {
  when: { role: "review" },
  reply: "fine",
  scores: { faithful: 100, style: 100, docs: 100, cornerCases: 100 },
};

/** A command agent that leaves a file of this name beside the clone, and its marker. */
function marking(place: WorkPlace, name: string): { readonly agent: string; readonly ran: () => boolean } {
  const marker = join(place.clone, "..", `${name}.marker`);
  return { agent: `command:touch '${marker}'`, ran: () => existsSync(marker) };
}

describe("--agent replaces every agent that a file names", () => {
  test("models.impl and models.review of holdfast.config.yaml", async () => {
    const place = await suite.begin();
    const [impl, review] = [marking(place, "impl"), marking(place, "review")];
    await writeFile(
      join(place.clone, "holdfast.config.yaml"),
      `models:\n  impl: ${JSON.stringify(impl.agent)}\n  review: ${JSON.stringify(review.agent)}\n`,
    );
    const done = await place.run("run", "1", "--agent", await place.agent([GOOD, REVIEW]));
    expect(done, done.stderr).toMatchObject({ status: 0 });
    expect([impl.ran(), review.ran()]).toEqual([false, false]);
  });

  test("agents of .holdfast/crunch/agents.yaml", async () => {
    const place = await suite.begin();
    const bad = marking(place, "crunch");
    await mkdir(join(place.clone, ".holdfast/crunch"), { recursive: true });
    const names = Object.keys(defaultCrunchSettings.agents);
    await writeFile(
      join(place.clone, ".holdfast/crunch/agents.yaml"),
      `agents:\n${names.map((name) => `  ${name}: { agent: ${JSON.stringify(bad.agent)} }\n`).join("")}`,
    );
    const agent = await place.agent([{ reply: "I do not know" }]);
    await place.run("run", "1", "--workflow", "crunch", "--target", "ready", "--agent", agent);
    expect(bad.ran()).toBe(false);
  });

  test("on resume too: the models that the run began with", async () => {
    const place = await suite.begin();
    const first = join(place.clone, "..", "first.json");
    const { finalize: _finalize, ...unfinished } = GOOD;
    await writeFile(first, JSON.stringify({ answers: [unfinished] }));
    const models = ["--agent", "command:false", "--impl-model", `scripted:${first}`];
    const begun = await place.run("run", "1", "--no-review", ...models, "--max-tokens", "500", "--max-iterations", "3");
    expect(begun, begun.stdout + begun.stderr).toMatchObject({ status: 7 });
    const agent = await place.agent([GOOD]);
    const done = await place.run("resume", "issue-1", "--agent", agent, "--max-tokens", "none");
    expect(done, done.stdout + done.stderr).toMatchObject({ status: 0 });
  });
});
