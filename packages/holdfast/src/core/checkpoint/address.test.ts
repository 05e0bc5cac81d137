import fc from "fast-check";
import { expect, test } from "vitest";
import { checkTagName, formatAddress, parseAddress } from "./address.ts";
import type { Address } from "./address.ts";
import { HoldfastError } from "../error.ts";

test.each<[string, Address]>([
  ["issue-42-k3f9", { run: "issue-42-k3f9", at: { kind: "none" } }],
  ["issue-42-k3f9@7", { run: "issue-42-k3f9", at: { kind: "sequence", sequence: 7 } }],
  ["issue-42-k3f9@latest", { run: "issue-42-k3f9", at: { kind: "latest" } }],
  ["issue-42-k3f9@before-refactor", { run: "issue-42-k3f9", at: { kind: "tag", name: "before-refactor" } }],
  ["@7", { run: null, at: { kind: "sequence", sequence: 7 } }],
  ["@latest", { run: null, at: { kind: "latest" } }],
  ["@v1.0", { run: null, at: { kind: "tag", name: "v1.0" } }],
])("%s", (text, address) => {
  expect(parseAddress(text)).toEqual(address);
});

test.each([
  "",
  "@",
  "run@",
  "run@0",
  "run@007",
  "run@99999999999999999999",
  "run@-1",
  "run@1.5.",
  "run@a..b",
  "run@a@b",
  "run@Latest",
  "run@x.lock",
  "Run",
  "-run",
  "run-",
  "a/b",
  "../x",
  "run\n",
  "run@1\n",
  "run@tag ",
  "r".repeat(64),
  `run@${"t".repeat(65)}`,
])("%j is refused as usage, with a hint", (text) => {
  try {
    parseAddress(text);
  } catch (error) {
    expect(error).toBeInstanceOf(HoldfastError);
    expect(error).toMatchObject({ code: "USAGE", hint: expect.stringContaining("RUN@7") });
    return;
  }
  throw new Error("was accepted");
});

test("every text is either refused or has exactly one spelling", () => {
  const near = fc.stringMatching(/^[a-z0-9-]{0,6}@?[A-Za-z0-9._-]{0,6}$/);
  fc.assert(
    fc.property(fc.oneof(fc.string(), near), (text) => {
      let address: Address;
      try {
        address = parseAddress(text);
      } catch (error) {
        expect(error).toMatchObject({ code: "USAGE" });
        return;
      }
      expect(formatAddress(address)).toBe(text);
    }),
  );
});

test("a tag that is accepted can be addressed, and is not taken for a sequence or latest", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[A-Za-z0-9._-]{1,8}$/), fc.constant("latest")), (name) => {
      try {
        checkTagName(name);
      } catch (error) {
        expect(error).toMatchObject({ code: "USAGE" });
        expect(kindOf(`run@${name}`)).not.toBe("tag");
        return;
      }
      expect(parseAddress(`run@${name}`).at).toEqual({ kind: "tag", name });
    }),
  );
});

function kindOf(text: string): string {
  try {
    return parseAddress(text).at.kind;
  } catch {
    return "refused";
  }
}

test.each(["7", "0", "latest", "LATEST", "", ".hidden", "a/b", "a b", "ends.", "x.lock", "a..b"])(
  "%j cannot be a tag",
  (name) => {
    expect(() => checkTagName(name)).toThrow(/cannot be a tag/);
  },
);
