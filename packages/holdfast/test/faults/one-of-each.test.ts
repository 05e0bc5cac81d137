import { describe, test } from "vitest";
import { record } from "./harness/record.ts";
import { isFullRun } from "./harness/seed.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepKills, sweepPower } from "./harness/sweep.ts";
import { restoreSubject } from "./judges/restore-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";

/**
 * The promise in small, for `npm test`: a few kills and a few power cuts. kill.slow.test.ts and power.slow.test.ts have more subjects and
 * more points, and in a full run all of them.
 */

const suite = faultSuite("one-of-each", "tracer");

describe.skipIf(isFullRun())("an acknowledged checkpoint survives a kill and a power cut", () => {
  test.each([
    { name: "in a store", subject: storeSubject("with-history"), cases: 4 },
    { name: "during a restore", subject: restoreSubject(), cases: 1 },
  ])("$name", async ({ name, subject, cases }) => {
    const { root, earlier } = await prepared(subject);
    const recording = await record({ command: await subject.command(root), root });
    const common = { recording, judge: subject.judge(earlier), cases };
    suite.check(await sweepKills({ ...common, chance: suite.chance(`kill ${name}`) }));
    suite.check(
      await sweepPower({ ...common, model: "ext4", statesPerCase: 1, chance: suite.chance(`power ${name}`) }),
    );
  });
});
