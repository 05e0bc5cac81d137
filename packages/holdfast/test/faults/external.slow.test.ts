import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { record } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepKills } from "./harness/sweep.ts";
import { sweepRealKills } from "./harness/sweep-real-kills.ts";
import { trace } from "./harness/traced.ts";
import { writeWorld } from "./harness/world.ts";
import { importSubject, mirrorSubject } from "./judges/external-subject.ts";
import { loopSubject } from "./judges/loop-subject.ts";

const suite = faultSuite("external", "tracer");
const EPERM = 1;

describe("checkpoints of other tools, killed at any operation", () => {
  test.each([
    { name: "an import", subject: importSubject(), cases: 5, real: 2 },
    { name: "a mirror", subject: mirrorSubject(), cases: 5, real: 2 },
    { name: "the layout of a loop", subject: loopSubject(), cases: 6, real: 2 },
  ])("$name", async ({ name, subject, cases, real }) => {
    const { root, earlier } = await prepared(subject);
    const command = await subject.command(root);
    const recording = await record({ command, root });
    const judge = subject.judge(earlier);
    suite.check(await sweepKills({ recording, judge, chance: suite.chance(name), cases }));
    const chance = suite.chance(`real ${name}`);
    suite.check(await sweepRealKills({ recording, command, withChildren: false, judge, chance, cases: real }));
  });
});

describe("where symbolic links are refused", () => {
  test("latest is a file that holds the name, is understood, and is left as it is", async () => {
    const subject = mirrorSubject();
    const { root } = await prepared(subject);
    const command = await subject.command(root);
    const recording = await record({ command, root });
    const link = recording.operations.find(({ kind }) => kind === "symlink");
    if (link === undefined) throw new Error("a mirror makes no link, and nothing can be refused");
    writeWorld(recording.root, recording.before);
    const refusing = { at: 1, kinds: ["symlink"], do: "errno", errno: EPERM, sticky: true } as const;
    for (const time of ["first", "second"]) {
      const { code, stderr } = await trace({ command, root, fault: refusing });
      expect(code, `${time}: ${stderr}`).toBe(0);
      const latest = join(root, "crunch/cp/latest");
      expect(lstatSync(latest).isFile()).toBe(true);
      expect(readFileSync(latest, "utf8")).toBe("CP-enrich-3.yaml\n");
    }
    expect(await subject.judge([])({ root, printed: [] })).toEqual([]);
  });
});
