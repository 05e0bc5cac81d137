import { describe, test } from "vitest";
import type { Recording } from "./harness/record.ts";
import { record } from "./harness/record.ts";
import type { Subject } from "./harness/subject.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepPower, sweepTornWrites } from "./harness/sweep.ts";
import { filesSubject } from "./judges/files-subject.ts";
import { housekeepingSubject } from "./judges/housekeeping-subject.ts";
import { removalSubject } from "./judges/removal-subject.ts";
import { restoreSubject } from "./judges/restore-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";

const suite = faultSuite("power", "tracer");

const SUBJECTS = [
  { name: "a store from nothing", subject: storeSubject("new-store"), cases: 8, statesPerCase: 3 },
  { name: "a store with history", subject: storeSubject("with-history"), cases: 8, statesPerCase: 3 },
  { name: "a repository", subject: filesSubject(), cases: 3, statesPerCase: 2 },
  { name: "a repository whose user commits", subject: filesSubject("commit"), cases: 3, statesPerCase: 2 },
  { name: "a restore", subject: restoreSubject(), cases: 2, statesPerCase: 2 },
  { name: "dropping and forking", subject: housekeepingSubject(), cases: 2, statesPerCase: 1 },
  { name: "removing", subject: removalSubject(), cases: 2, statesPerCase: 1 },
] as const;

interface Recorded {
  readonly recording: Recording;
  readonly earlier: readonly string[];
}
const recorded = new Map<Subject, Promise<Recorded>>();

/** One recording serves all models. */
function recordOnce(subject: Subject): Promise<Recorded> {
  const known = recorded.get(subject) ?? recordSubject(subject);
  recorded.set(subject, known);
  return known;
}

async function recordSubject(subject: Subject): Promise<Recorded> {
  const { root, earlier } = await prepared(subject);
  return { recording: await record({ command: await subject.command(root), root }), earlier };
}

describe("an acknowledged checkpoint survives a power cut", () => {
  test.each(suite.oneEach(SUBJECTS, ["posix", "ext4"]))("$name, in the $kind model", async (row) => {
    const { name, kind: model, subject, cases, statesPerCase } = row;
    const { recording, earlier } = await recordOnce(subject);
    const chance = suite.chance(`${model} ${name}`);
    suite.check(await sweepPower({ recording, judge: subject.judge(earlier), model, chance, cases, statesPerCase }));
  });
});

describe("a power cut within a write to the high-water mark is no damage", () => {
  test.each(SUBJECTS.slice(0, 2))("$name", async ({ name, subject }) => {
    const { recording, earlier } = await recordOnce(subject);
    const chance = suite.chance(`torn ${name}`);
    const file = "high-water";
    suite.check(await sweepTornWrites({ recording, judge: subject.judge(earlier), chance, cases: 4, file }));
  });
});
