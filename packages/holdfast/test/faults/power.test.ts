import { describe, test } from "vitest";
import type { Recording } from "./harness/record.ts";
import { record } from "./harness/record.ts";
import type { Subject } from "./harness/subject.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepPower } from "./harness/sweep.ts";
import { filesSubject } from "./judges/files-subject.ts";
import { housekeepingSubject } from "./judges/housekeeping-subject.ts";
import { removalSubject } from "./judges/removal-subject.ts";
import { restoreSubject } from "./judges/restore-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";

const suite = faultSuite("power", "tracer");

const SUBJECTS = [
  { name: "a store from nothing", subject: storeSubject("birth"), cases: 16, statesPerCase: 3 },
  { name: "a store with a past", subject: storeSubject("life"), cases: 16, statesPerCase: 3 },
  { name: "a repository", subject: filesSubject(), cases: 5, statesPerCase: 2 },
  { name: "a repository whose user commits", subject: filesSubject("commit"), cases: 5, statesPerCase: 2 },
  { name: "a restore", subject: restoreSubject(), cases: 3, statesPerCase: 2 },
  { name: "dropping and forking", subject: housekeepingSubject(), cases: 3, statesPerCase: 1 },
  { name: "removing", subject: removalSubject(), cases: 3, statesPerCase: 1 },
] as const;

/** One recording serves both models. */
const recorded = new Map<Subject, Promise<{ readonly recording: Recording; readonly earlier: readonly string[] }>>();

async function recordOnce(
  subject: Subject,
): Promise<{ readonly recording: Recording; readonly earlier: readonly string[] }> {
  const { root, earlier } = await prepared(subject);
  return { recording: await record({ command: await subject.command(root), root }), earlier };
}

describe.each(["posix", "ext4"] as const)(
  "an acknowledged checkpoint survives a power cut in the %s model",
  (model) => {
    test.each(SUBJECTS)("$name", async ({ name, subject, cases, statesPerCase }) => {
      const known = recorded.get(subject) ?? recordOnce(subject);
      recorded.set(subject, known);
      const { recording, earlier } = await known;
      const chance = suite.chance(`${model} ${name}`);
      suite.check(await sweepPower({ recording, judge: subject.judge(earlier), model, chance, cases, statesPerCase }));
    });
  },
);
