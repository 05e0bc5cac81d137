import { describe, test } from "vitest";
import { record } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepKills } from "./harness/sweep.ts";
import { sweepRealKills } from "./harness/sweep-real-kills.ts";
import { filesSubject } from "./judges/files-subject.ts";
import { housekeepingSubject } from "./judges/housekeeping-subject.ts";
import { removalSubject } from "./judges/removal-subject.ts";
import { restoreSubject } from "./judges/restore-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";

const suite = faultSuite("kill", "tracer");

const SUBJECTS = [
  { name: "a store from nothing", subject: storeSubject("new-store"), cases: 12, real: 3, withChildren: false },
  { name: "a store with history", subject: storeSubject("with-history"), cases: 12, real: 3, withChildren: false },
  { name: "a repository", subject: filesSubject(), cases: 4, real: 2, withChildren: true },
  { name: "a restore", subject: restoreSubject(), cases: 3, real: 1, withChildren: true },
  { name: "dropping and forking", subject: housekeepingSubject(), cases: 3, real: 1, withChildren: true },
  { name: "removing", subject: removalSubject(), cases: 3, real: 1, withChildren: true },
] as const;

describe("an acknowledged checkpoint survives kill -9 at any operation", () => {
  test.each(SUBJECTS)("$name", async ({ name, subject, cases, real, withChildren }) => {
    const { root, earlier } = await prepared(subject);
    const command = await subject.command(root);
    const recording = await record({ command, root });
    const judge = subject.judge(earlier);
    suite.check(await sweepKills({ recording, judge, chance: suite.chance(name), cases }));
    suite.check(
      await sweepRealKills({
        recording,
        command,
        withChildren,
        judge,
        chance: suite.chance(`real ${name}`),
        cases: real,
      }),
    );
  });
});
