import { expect, test } from "vitest";
import { ERROR_CODES } from "@holdfast/platform/error";
import { EXITS, EXIT_OF } from "./exit.ts";

test("every error code has an exit status of its kind, never success; waiting is an outcome and not an error", () => {
  for (const code of ERROR_CODES) expect(["done", "terminated"]).not.toContain(EXIT_OF[code]);
  expect(ERROR_CODES.filter((code) => EXIT_OF[code] === "waiting")).toEqual([]);
  const statuses = Object.values(EXITS).map((exit) => exit.status);
  expect(new Set(statuses).size).toBe(statuses.length);
});

test("the meaning of a status is also true for a run that was taken, and for one whose files are elsewhere", () => {
  expect(EXITS[EXIT_OF.LEASE_LOST].about).toContain("another process took the run");
  expect(EXITS[EXIT_OF.STORE_MISSING].about).toContain("damaged or missing");
  expect(EXITS[EXIT_OF.TREE_MISSING].about).toContain("files of the run are on another machine");
});

test("the statuses that scripts rely on", () => {
  const statusOf = (code: keyof typeof EXIT_OF): number => EXITS[EXIT_OF[code]].status;
  expect(EXITS.done.status).toBe(0);
  expect(EXITS.waiting.status).toBe(7);
  expect(statusOf("INTERNAL")).toBe(1);
  expect(statusOf("USAGE")).toBe(2);
  expect(statusOf("NOTHING_TO_RESUME")).toBe(3);
  expect(statusOf("NEEDS_DECISION")).toBe(4);
  expect(statusOf("LEASE_HELD")).toBe(5);
  expect(statusOf("STORE_CORRUPT")).toBe(6);
  expect(statusOf("INTERRUPTED")).toBe(130);
});
