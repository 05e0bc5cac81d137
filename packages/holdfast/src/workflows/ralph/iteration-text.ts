import type { Iteration } from "../../core/ralph/iteration.ts";

/** "Iteration 3 failed: 2 of 10 tests fail, 1 error, quality 72". */
export function iterationText(iteration: Iteration): string {
  const { number, verdict, tests, errors, quality } = iteration;
  const facts = [
    ...(tests === null ? [] : [testsText(tests)]),
    ...(errors === null || errors === 0 ? [] : [errors === 1 ? "1 error" : `${errors} errors`]),
    ...(quality === null ? [] : [`quality ${Math.round(quality)}`]),
  ];
  return `Iteration ${number} ${VERDICT[verdict]}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`;
}

const VERDICT: Readonly<Record<Iteration["verdict"], string>> = {
  passed: "passed",
  failed: "failed",
  unchecked: "was not checked",
  not_run: "could not be checked",
};

function testsText({ passed, failed }: NonNullable<Iteration["tests"]>): string {
  const all = passed + failed;
  return failed === 0 ? `${all} of ${all} tests pass` : `${failed} of ${all} tests fail`;
}
