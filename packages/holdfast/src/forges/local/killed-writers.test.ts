import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createLocalForgeScene } from "../../testing/scenes/local-forge-scene.ts";

const FORGE = fileURLToPath(new URL("./local-forge.ts", import.meta.url));
const KEYS = 30;

/** All writers try the same keys in the same order, and start together when the gate opens, so that they meet at each of them. */
function startWriter(repository: string, gate: string): ChildProcess {
  const program = `
    import { existsSync } from "node:fs";
    import { openLocalForge } from ${JSON.stringify(FORGE)};
    const forge = openLocalForge({ repository: ${JSON.stringify(repository)} });
    while (!existsSync(${JSON.stringify(gate)})) await new Promise((resolve) => setTimeout(resolve, 1));
    for (let at = 0; at < ${KEYS}; at++) {
      const key = "run/setup/" + at;
      const { number } = await forge.createIssue({ title: key, body: "", labels: [], key });
      await forge.comment(number, { body: "seen", key: key + "/note" });
    }`;
  const args = ["--input-type=module", "--disable-warning=ExperimentalWarning", "-e", program];
  return spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
}

test("writers at once, killed again and again: each issue and comment once, numbers never shared, each in the log once", async () => {
  const scene = createLocalForgeScene();
  try {
    for (const milliseconds of [20, 60, 120, null]) {
      const gate = join(scene.bare.root, "..", `gate-${milliseconds}`);
      const writers = [1, 2, 3].map(() => startWriter(scene.bare.root, gate));
      const ended = Promise.all(writers.map((writer) => once(writer, "exit")));
      // Time for all to stand at the gate; whether they do changes only how much is shown.
      await setTimeout(400);
      writeFileSync(gate, "");
      if (milliseconds !== null) {
        await Promise.race([ended, setTimeout(milliseconds)]);
        for (const writer of writers) writer.kill("SIGKILL");
      }
      const codes = (await ended).map(([code]) => code);
      if (milliseconds === null) expect(codes).toEqual([0, 0, 0]);
    }
    const forge = scene.forge();
    const numbers: (number | undefined)[] = [];
    for (let at = 0; at < KEYS; at++) numbers.push((await forge.findIssue(`run/setup/${at}`))?.number);
    expect(numbers).toEqual(Array.from({ length: KEYS }, (_, at) => at + 1));
    expect(await forge.getIssue(KEYS + 1)).toBeNull();
    const lines = readFileSync(join(scene.directory, "log.jsonl"), "utf8").split("\n").slice(0, -1);
    const keys = lines.map((line): unknown => JSON.parse(line).key);
    expect(keys).toHaveLength(2 * KEYS);
    expect(new Set(keys).size).toBe(2 * KEYS);
  } finally {
    scene.dispose();
  }
});
