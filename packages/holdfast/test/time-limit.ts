import { beforeEach } from "vitest";

/**
 * `.ci/run` sets HOLDFAST_TESTS_UNTIL, in seconds since 1970, long after the time that the tests take. On a machine that is so slow that they have not
 * ended by then, later tests are skipped and counted as skipped: a CI that is ended from outside reports nothing.
 */
const until = Number(process.env["HOLDFAST_TESTS_UNTIL"] ?? "Infinity") * 1000;
if (Number.isNaN(until)) throw new Error("HOLDFAST_TESTS_UNTIL must be a number of seconds since 1970");

beforeEach(({ skip }) => skip(Date.now() > until, "the time for tests is over"));
