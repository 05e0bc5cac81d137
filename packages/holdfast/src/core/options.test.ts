import { expect, test } from "vitest";
import { checkOneOf, checkOptions } from "./options.ts";

test("an option that nobody reads is refused, with the nearest name", () => {
  expect(() => checkOptions("save", { values: {} }, ["values", "stage"])).not.toThrow();
  expect(() => checkOptions("save", { value: {} }, ["values", "stage"])).toThrow(
    expect.objectContaining({ code: "USAGE", hint: "Did you mean values?" }),
  );
  expect(() => checkOptions("save", { zzz: {} }, ["values", "stage"])).toThrow(
    expect.objectContaining({ hint: "Its options: values, stage." }),
  );
});

test("a word outside the list is refused", () => {
  expect(() => checkOneOf("createRun", "workspace", "here", ["here", "new"])).not.toThrow();
  expect(() => checkOneOf("createRun", "workspace", undefined, ["here", "new"])).not.toThrow();
  for (const value of ["her", null, 1, {}]) {
    expect(() => checkOneOf("createRun", "workspace", value, ["here", "new"])).toThrow(
      expect.objectContaining({ code: "USAGE", hint: "Use one of here, new." }),
    );
  }
});
