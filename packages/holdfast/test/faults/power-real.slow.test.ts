import { describe, test } from "vitest";
import { whyNoLoopDisk } from "./harness/mounted.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepRealPower } from "./harness/sweep-real-power.ts";
import { filesSubject } from "./judges/files-subject.ts";
import { restoreSubject } from "./judges/restore-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";

const suite = faultSuite("power-real", "tracer");

const SUBJECTS = [
  { name: "a store from nothing", subject: storeSubject("new-store"), cases: 3 },
  { name: "a store with history", subject: storeSubject("with-history"), cases: 3 },
  { name: "a repository", subject: filesSubject(), cases: 2 },
  { name: "a repository whose user commits", subject: filesSubject("commit"), cases: 2 },
  { name: "a restore", subject: restoreSubject(), cases: 2 },
] as const;

describe("an acknowledged checkpoint survives the kernel's own power cut", () => {
  test.for(suite.oneEach(SUBJECTS, ["ext4", "xfs"]))("$name, on $kind", async (row, context) => {
    const { name, kind, subject, cases } = row;
    suite.skipIf(await whyNoLoopDisk(kind), context);
    suite.check(await sweepRealPower({ kind, subject, chance: suite.chance(`${kind} ${name}`), cases }));
  });
});
