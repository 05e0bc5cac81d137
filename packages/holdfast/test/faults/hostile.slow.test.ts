import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchFolder } from "./harness/scratch.ts";
import { faultSuite } from "./harness/suite.ts";
import type { Bad } from "./harness/sweep.ts";
import { trace } from "./harness/traced.ts";
import { writerCommand } from "./harness/writer.ts";
import { makeRepository } from "./judges/repository.ts";

const suite = faultSuite("hostile", "tracer");

describe("whatever an id, a path or a checkpoint contains", () => {
  test("nothing outside the repository and its worktrees is opened for it, written or removed", async () => {
    const top = scratchFolder("hostile");
    const [root, outside] = [join(top, "world"), join(top, "outside")];
    const repository = join(root, "repository");
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, "canary"), "alive\n");
    makeRepository(repository);
    const { operations, stdout, stderr, code } = await trace({
      command: await writerCommand("hostile-writer", repository, outside),
      root,
      reads: true,
      timeoutMs: 240_000,
    });
    expect(code, stderr).toBe(0);
    const reported = stdout.split("\n").filter((line) => line !== "");
    const bad: Bad[] = reported.flatMap((line) =>
      line.includes("\tTHREW ") ? [{ where: line, problems: ["CRASHED: no HoldfastError"] }] : [],
    );
    const touched = operations.flatMap((operation) =>
      "path" in operation ? [{ ...operation, to: "to" in operation ? operation.to : "" }] : [],
    );
    for (const { kind, path, to, ...rest } of touched) {
      const writes = kind !== "open" || ("writable" in rest && rest.writable);
      if (path.startsWith(`${outside}/`) || to.startsWith(`${outside}/`))
        bad.push({ where: `${kind} ${path}`, problems: ["OUTSIDE: opened, written or removed"] });
      else if (writes && !path.startsWith(`${root}/`) && !isHarmless(path))
        bad.push({ where: `${kind} ${path}`, problems: ["OUTSIDE: written"] });
    }
    // Not only harmless: the one restore here that is asked for honestly must work.
    if (!reported.includes("restore through a link\tdone"))
      bad.push({ where: "restore through a link", problems: ["REFUSED: a folder that became a link is not restored"] });
    expect(readdirSync(outside)).toEqual(["canary"]);
    expect(readFileSync(join(outside, "canary"), "utf8")).toBe("alive\n");
    expect(touched.length, "the tracer must have seen something").toBeGreaterThan(1_000);
    suite.check({ cases: reported.length, states: touched.length, bad });
  });
});

/** Devices and the process itself. */
function isHarmless(path: string): boolean {
  return /^\/(?:dev\/(?:null|tty|pts\/\d+)|proc\/)/.test(path);
}
