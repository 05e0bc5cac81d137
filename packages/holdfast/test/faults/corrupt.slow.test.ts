import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "vitest";
import { scratchFolder } from "./harness/scratch.ts";
import type { Chance } from "./harness/seed.ts";
import { isFullRun } from "./harness/seed.ts";
import { faultSuite } from "./harness/suite.ts";
import type { Bad } from "./harness/sweep.ts";
import { writerCommand } from "./harness/writer.ts";
import { examineAll } from "./judges/examine.ts";
import type { Damage } from "./writers/damage.ts";
import type { Examined } from "./writers/examine-store.ts";

const suite = faultSuite("corrupt");
const SAVES = 6;

/** "closed": all in the database. "killed": the newest saves only in the log. */
describe.each(["closed", "killed"] as const)(
  "damage at rest to a %s store is reported, never shown as good, never mistaken for a new store",
  (how) => {
    test("deleted, emptied, cut, replaced, zeroed, flipped", async () => {
      const pristine = await makeStore(how === "closed" ? "new-store" : "die");
      const older = await makeStore("new-store");
      const damages = planDamages(pristine, older, suite.chance(how));
      const results = await examineAll(pristine, damages);
      const bad: Bad[] = results.flatMap((result, i) => {
        const damage = damages[i];
        const problem = damage === undefined ? "no damage" : judge(damage, result);
        return problem === undefined ? [] : [{ where: JSON.stringify(damage), problems: [problem] }];
      });
      suite.check({ cases: damages.length, states: damages.length, bad });
    });
  },
);

async function makeStore(plan: "new-store" | "die"): Promise<string> {
  const directory = join(scratchFolder("pristine"), "store");
  const [file = "", ...args] = await writerCommand("store-writer", directory, plan);
  try {
    execFileSync(file, args, { stdio: ["ignore", "ignore", "inherit"] });
  } catch (error) {
    if (plan !== "die") throw error;
  }
  return directory;
}

function planDamages(pristine: string, older: string, chance: Chance): readonly Damage[] {
  const files = listFiles(pristine);
  const whole = (
    ["delete", "empty", "fifo", "directory", "dangling-link", "link-to-endless", "link-elsewhere"] as const
  ).flatMap((how) => files.map((file): Damage => ({ file, how })));
  const swapped: Damage[] = ["store.db", "store.json", "high-water"].map((file) => ({
    file,
    how: "replace",
    by: join(older, file),
  }));
  const parts = files.flatMap((file): readonly Damage[] => {
    const { size } = statSync(join(pristine, file));
    const many = isFullRun() ? 400 : 5;
    const flips = Array.from({ length: many }, (): Damage => ({
      file,
      how: "flip",
      at: chance.below(size),
      bit: chance.below(8),
    }));
    const cuts = Array.from({ length: many / 5 }, (): Damage => ({ file, how: "cut", bytes: chance.below(size) }));
    const pages = Array.from({ length: many / 5 }, (): Damage => ({
      file,
      how: "zero-page",
      at: chance.below(Math.ceil(size / 4096)) * 4096,
    }));
    return [
      ...flips,
      ...cuts,
      ...pages,
      { file, how: "cut", bytes: size - 1 },
      { file, how: "cut", bytes: Math.floor(size / 8192) * 4096 },
    ];
  });
  return [...whole, ...swapped, ...parts];
}

function listFiles(directory: string, below = ""): readonly string[] {
  return readdirSync(join(directory, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    if (entry.isDirectory()) return listFiles(directory, path);
    return path.endsWith("-shm") ? [] : [path];
  });
}

/** Unused bytes (a free page, the end of a log) may be damaged without harm; then everything is still intact. */
function judge(damage: Damage, result: Examined | { readonly kind: "hung" }): string | undefined {
  switch (result.kind) {
    case "hung":
      return "HANG: no answer";
    case "threw":
      return `CRASHED: ${result.what}`;
    case "refused":
      return result.code.startsWith("STORE_") ? undefined : `REFUSED: reported as ${result.code}`;
    case "opened": {
      if (result.torn.length > 0) return `TORN: checkpoint ${result.torn.join(", ")} is shown as good`;
      const lost = SAVES - result.whole.length;
      if (lost > 0 && result.problems.length === 0)
        return `SILENT: ${lost} checkpoints are gone, and verify finds nothing`;
      // The reserve holds no data: a full disk removes it, and the next opening for writing makes it again. A lock file
      // of a dead process holds none either.
      const isData = damage.file !== "reserve" && !damage.file.startsWith("alive/");
      const gone = (damage.how === "delete" || damage.how === "empty") && isData;
      if (gone && result.problems.length === 0) return `SILENT: ${damage.file} is gone, and verify finds nothing`;
      return undefined;
    }
  }
}
