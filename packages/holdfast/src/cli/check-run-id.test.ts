import * as fc from "fast-check";
import { expect, test } from "vitest";
import { HoldfastError } from "../core/error.ts";
import { RUN_ID } from "../core/run/run.ts";
import { checkNewRunId } from "./check-run-id.ts";

test("what is wrong gets an id that is right", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 100 }), (id) => {
      try {
        checkNewRunId(id);
        expect(id).toMatch(RUN_ID);
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        expect(/such as (.*)\.$/.exec(error.hint ?? "")?.[1]).toMatch(RUN_ID);
      }
    }),
  );
  expect(() => checkNewRunId("Fix Login!")).toThrow(
    expect.objectContaining({ hint: expect.stringContaining("fix-login.") }),
  );
  expect(() => checkNewRunId(undefined)).not.toThrow();
});
