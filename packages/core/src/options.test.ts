import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkOneOf, checkOptions, choiceHint, nearest } from "./options.ts";

describe("nearest", () => {
  const runs = ["issue-42-k3f9", "issue-43-aaaa", "fix-login-bug-zz11"];

  test("finds a typo, a swap and a prefix", () => {
    expect(nearest("isue-42-k3f9", runs)[0]).toBe("issue-42-k3f9");
    expect(nearest("issue-42-k39f", runs)[0]).toBe("issue-42-k3f9");
    expect(nearest("fix", runs)).toEqual(["fix-login-bug-zz11"]);
    expect(nearest("lsit", ["list", "last", "restore"])[0]).toBe("list");
  });

  test.each([
    ["restor", "restore"],
    ["xrestore", "restore"],
    ["rsetore", "restore"],
    ["restoer", "restore"],
    ["restpre", "restore"],
    ["resttore", "restore"],
    ["restore1", "restore"],
  ])("%s is one edit from %s, also with a small limit", (typed, meant) => {
    expect(nearest(typed, ["verify", meant, "list"])).toEqual([meant]);
  });

  test("suggests nothing rather than a distant name", () => {
    expect(nearest("zzz", runs)).toEqual([]);
    expect(nearest("", runs)).toEqual([]);
    expect(nearest("x", [])).toEqual([]);
  });

  test("is deterministic, bounded, without duplicates, and lists an exact match first", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 }), { minLength: 1 }), fc.nat(), (names, pick) => {
        const wanted = names[pick % names.length] ?? "";
        const found = nearest(wanted, names);
        expect(found[0]?.toLowerCase()).toBe(wanted.toLowerCase());
        expect(found.length).toBeLessThanOrEqual(3);
        expect(new Set(found).size).toBe(found.length);
        expect(nearest(wanted, names.toReversed())).toEqual(found);
      }),
    );
  });

  test("a long text costs no more than a long name", () => {
    expect(nearest("a".repeat(1_000_000), ["b".repeat(1_000_000)])).toEqual([]);
  });
});

describe("options", () => {
  test("an unknown option is refused, with the nearest name", () => {
    expect(() => checkOptions("save", { values: {} }, { values: "any", stage: "text" })).not.toThrow();
    expect(() => checkOptions("save", { value: {} }, { values: "any", stage: "text" })).toThrow(
      expect.objectContaining({ code: "USAGE", hint: "Did you mean values?" }),
    );
    expect(() => checkOptions("save", { zzz: {} }, { values: "any", stage: "text" })).toThrow(
      expect.objectContaining({ hint: "Its options: values, stage." }),
    );
  });

  test("a word outside a closed set gets all its words, and the nearest one", () => {
    const known = { workspace: ["here", "new"], id: "text" } as const;
    expect(() => checkOptions("createRun", { workspace: "new", id: "a" }, known)).not.toThrow();
    expect(() => checkOptions("createRun", { workspace: "hre" }, known)).toThrow(
      expect.objectContaining({ code: "USAGE", hint: "Did you mean here? One of: here, new." }),
    );
    expect(choiceHint(7, ["a", "b"])).toBe("One of: a, b.");
  });

  test("a value outside the list is refused", () => {
    expect(() => checkOneOf("createRun", "workspace", "here", ["here", "new"])).not.toThrow();
    expect(() => checkOneOf("createRun", "workspace", undefined, ["here", "new"])).not.toThrow();
    for (const value of ["her", null, 1, {}]) {
      expect(() => checkOneOf("createRun", "workspace", value, ["here", "new"])).toThrow(
        expect.objectContaining({ code: "USAGE", hint: expect.stringMatching(/One of: here, new\.$/) }),
      );
    }
  });
});
