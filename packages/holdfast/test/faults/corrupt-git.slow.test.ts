import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "vitest";
import type { Holdfast } from "../../src/holdfast.ts";
import { openHoldfast } from "../../src/open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { scratchFolder } from "./harness/scratch.ts";
import { sample } from "./harness/seed.ts";
import { faultSuite } from "./harness/suite.ts";
import type { Bad } from "./harness/sweep.ts";
import { writerCommand } from "./harness/writer.ts";
import { git, makeRepository } from "./judges/repository.ts";
import { readWorktree } from "./writers/worktree.ts";

const suite = faultSuite("corrupt-git");

describe("a checkpoint whose git objects are damaged", () => {
  test("is reported by verify, and a restore of it refuses and changes nothing", async () => {
    const repository = join(scratchFolder("repository"), "repository");
    makeRepository(repository);
    const [file = "", ...args] = await writerCommand("files-writer", repository);
    execFileSync(file, args, { stdio: ["ignore", "ignore", "inherit"] });
    const holdfast = await openHoldfast({ cwd: repository });
    try {
      const run = await holdfast.run("crash-run");
      const target = await run.get(2);
      const commit = target.planes.files?.snapshot ?? "";
      const later = new Set(objectsOf(repository, (await run.get(3)).planes.files?.snapshot ?? ""));
      // Objects of the third save would already stop the capture of the current worktree.
      const own = objectsOf(repository, commit).filter((id) => !later.has(id) && existsSync(looseFile(repository, id)));
      const chance = suite.chance("objects");
      const cases = sample(
        chance,
        own.flatMap((id) => (["delete", "empty", "flip", "cut"] as const).map((how) => ({ id, how }))),
        10,
      );
      const bad: Bad[] = [];
      for (const { id, how } of cases) {
        const path = looseFile(repository, id);
        const bytes = readFileSync(path);
        execFileSync("chmod", ["u+w", path]);
        damage(path, bytes, how, chance.below(bytes.length));
        const problems: string[] = [];
        const reported = await reportedSequences(holdfast);
        if (typeof reported === "string") problems.push(`CRASHED: verify threw ${reported}`);
        else if (!reported.includes(2)) problems.push("SILENT: verify does not name the checkpoint");
        const before = JSON.stringify([...readWorktree(repository)]);
        const code = await run.restore({ sequence: 2 }).then(
          () => "no refusal",
          (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
        );
        if (code !== "TREE_MISSING") problems.push(`REFUSED: the restore reports ${code}`);
        if (JSON.stringify([...readWorktree(repository)]) !== before)
          problems.push("CHANGED: the restore touched the worktree");
        rmSync(path, { force: true });
        writeFileSync(path, bytes);
        if (problems.length > 0)
          bad.push({ where: `${how} of ${git(repository, ["cat-file", "-t", id]).toString().trim()} ${id}`, problems });
      }
      await run.close();
      suite.check({ cases: cases.length, states: cases.length, bad });
    } finally {
      await holdfast.close();
    }
  });
});

/** The checkpoints that verify names; a string when it could not finish. */
async function reportedSequences(holdfast: Holdfast): Promise<readonly number[] | string> {
  const reported: number[] = [];
  try {
    for await (const event of holdfast.verify()) {
      if (event.kind === "problem" && event.problem.sequence !== null) reported.push(event.problem.sequence);
    }
    return reported;
  } catch (error) {
    return String(error);
  }
}

function objectsOf(repository: string, commit: string): readonly string[] {
  const lines = git(repository, ["rev-list", "--objects", "--no-object-names", `${commit}^{tree}`])
    .toString()
    .split("\n");
  return [commit, ...lines.filter((line) => line !== "")];
}

function looseFile(repository: string, id: string): string {
  return join(repository, ".git", "objects", id.slice(0, 2), id.slice(2));
}

function damage(path: string, bytes: Buffer, how: "delete" | "empty" | "flip" | "cut", at: number): void {
  switch (how) {
    case "delete":
      return rmSync(path);
    case "empty":
      return truncateSync(path, 0);
    case "cut":
      return truncateSync(path, at);
    case "flip": {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      return writeFileSync(path, flipped);
    }
  }
}
