import * as fc from "fast-check";

/** Property tests follow HOLDFAST_SEED as the torture suites do, so that a run can be repeated whole. Without it each run draws a new seed. */
const given = process.env["HOLDFAST_SEED"];
if (given !== undefined && given !== "") {
  const seed = Number(given);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`HOLDFAST_SEED must be a whole number, not "${given}"`);
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });
}

// The quick tests try a tenth of the cases. `npm test` tries all.
if (process.env["HOLDFAST_TESTS"] === "quick") fc.configureGlobal({ ...fc.readConfigureGlobal(), numRuns: 10 });
