import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createLocalForgeScene } from "../../testing/local-forge-scene.ts";

const FORGE = fileURLToPath(new URL("./local-forge.ts", import.meta.url));
const KEYS = 12;

/** Each writer tries all keys, in another order, so that they meet. */
function startWriter(repository: string, offset: number): ChildProcess {
  const program = `
    import { openLocalForge } from ${JSON.stringify(FORGE)};
    const forge = openLocalForge({ repository: ${JSON.stringify(repository)} });
    for (let at = 0; at < ${KEYS}; at++) {
      const key = "run/setup/" + ((at * 5 + ${offset}) % ${KEYS});
      const { number } = await forge.createIssue({ title: key, body: "", labels: [], key });
      await forge.comment(number, { body: "seen", key: key + "/note" });
    }`;
  return spawn(process.execPath, ["--input-type=module", "--disable-warning=ExperimentalWarning", "-e", program], {
    stdio: ["ignore", "ignore", "inherit"],
  });
}

test("two writers at once, killed again and again: each issue and comment once, numbers never shared, each in the log once", async () => {
  const scene = createLocalForgeScene();
  try {
    for (let round = 0; round < 4; round++) {
      const writers = [startWriter(scene.bare.root, 0), startWriter(scene.bare.root, 7)];
      const ended = writers.map((writer) => once(writer, "exit"));
      // Long enough to be in the middle of it, at another place each time.
      await Promise.race([Promise.all(ended), setTimeout(250 + round * 60)]);
      for (const writer of writers) writer.kill("SIGKILL");
      await Promise.all(ended);
    }
    const last = [startWriter(scene.bare.root, 3), startWriter(scene.bare.root, 9)];
    expect((await Promise.all(last.map((writer) => once(writer, "exit")))).map(([code]) => code)).toEqual([0, 0]);

    const forge = scene.forge();
    const numbers = new Set<number>();
    for (let at = 0; at < KEYS; at++) {
      const issue = await forge.findIssue(`run/setup/${at}`);
      expect(issue?.title).toBe(`run/setup/${at}`);
      numbers.add(issue?.number ?? 0);
    }
    expect([...numbers].sort((a, b) => a - b)).toEqual(Array.from({ length: KEYS }, (_, at) => at + 1));
    const lines = readFileSync(join(scene.directory, "log.jsonl"), "utf8").split("\n").slice(0, -1);
    const keys = lines.map((line): unknown => JSON.parse(line).key);
    expect(keys).toHaveLength(2 * KEYS);
    expect(new Set(keys).size).toBe(2 * KEYS);
  } finally {
    scene.dispose();
  }
});
