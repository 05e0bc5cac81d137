import { describe, test } from "vitest";
import { record } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { sweepErrors } from "./harness/sweep-errors.ts";
import type { ErrorName, FaultyRun } from "./harness/sweep-errors.ts";
import { filesSubject } from "./judges/files-subject.ts";
import { storeSubject } from "./judges/store-subject.ts";
import { parsePrinted } from "./writers/printed.ts";

const suite = faultSuite("errors", "tracer");

/**
 * The error codes for the caller. A failed sync or open reveals little of its cause, so IO_FAILED is right for each.
 */
const CODES: Record<ErrorName, readonly string[]> = {
  EIO: ["IO_FAILED"],
  EMFILE: ["IO_FAILED"],
  ENOSPC: ["DISK_FULL", "IO_FAILED"],
  EROFS: ["STORE_READ_ONLY", "IO_FAILED"],
};

const SUBJECTS = [
  { name: "a store", subject: storeSubject("stubborn"), saves: 4, cases: 8, also: [] },
  { name: "a repository", subject: filesSubject(), saves: 3, cases: 4, also: ["GIT_FAILED"] },
] as const;

describe("an error of the disk is reported, loses nothing that was saved, and passes", () => {
  test.each(SUBJECTS)("$name", async ({ name, subject, saves, cases, also }) => {
    const { root, earlier } = await prepared(subject);
    const command = await subject.command(root);
    const recording = await record({ command, root });
    const judgeRun = ({ error, sticky, code, printed, stderr }: FaultyRun): readonly string[] => {
      const lines = parsePrinted(printed);
      const problems = lines.flatMap((line) =>
        line.kind === "refused" && ![...CODES[error], ...also].includes(line.code)
          ? [`REFUSED: ${error} is reported as ${line.code}: ${line.what}`]
          : [],
      );
      if (code !== 0) problems.push(`CRASHED: exit ${code} instead of a refusal: ${stderr}`);
      const done = lines.some((line) => line.kind === "saved" && line.sequence === saves);
      if (!sticky && !done)
        problems.push(`STUCK: the error passed, but the writer could not continue: ${printed.at(-1)}`);
      return problems;
    };
    suite.check(
      await sweepErrors({
        recording,
        isOurs: (path) => /\/(?:store|\.git)(?:\/|$)/.test(path),
        command,
        judge: subject.judge(earlier),
        judgeRun,
        chance: suite.chance(name),
        cases,
      }),
    );
  });
});
