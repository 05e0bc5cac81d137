import { execFileSync } from "node:child_process";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { repeatFlags, suggestedProgram } from "./shell.ts";

const typed = (flags: Readonly<Record<string, string>>) => suggestedProgram({ text: (name) => flags[name] });

test("typed flags are repeated", () => {
  expect(typed({})).toBe("holdfast");
  expect(typed({ store: "../my store", cwd: "/srv/x" })).toBe("holdfast --store '../my store' --cwd /srv/x");
});

test("a shell parses the quoted directory back", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: "grapheme-ascii" }), (store) => {
      const line = typed({ store }).replace("holdfast --store", "printf %s");
      expect(execFileSync("sh", ["-c", line], { encoding: "utf8" })).toBe(store);
    }),
    { numRuns: 30 },
  );
});

test("hints from other modules get the flags; prose stays", () => {
  const hint = "Holdfast needs `holdfast list r`, not holdfast itself.";
  expect(repeatFlags(hint, "holdfast --store s", ["list", "show"])).toBe(
    "Holdfast needs `holdfast --store s list r`, not holdfast itself.",
  );
  expect(repeatFlags(hint, "holdfast", ["list"])).toBe(hint);
});
