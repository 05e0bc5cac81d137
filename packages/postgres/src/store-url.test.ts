import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { resolvePlace, withoutPassword } from "./store-url.ts";

describe("resolvePlace", () => {
  test("leaves the URL of a store as it is", () => {
    for (const url of ["postgres://u:pw@db/team", "postgresql:///team", "POSTGRES://db/team"]) {
      expect(resolvePlace("/repo", url, "--store")).toBe(url);
      expect(resolvePlace("/repo", ` ${url}\n`, "--store")).toBe(url);
    }
  });

  test.each([
    "postgres:u:pw9secret@db/team",
    "postgresql:/u:pw9secret@db/team",
    " u:pw9secret@db/team",
    "u:pw9@secret@db",
  ])("refuses %s, a URL that is cut, and shows nothing of it", (url) => {
    expect(() => resolvePlace("/repo", url, "--store")).toThrow("--store is no path, and no whole URL");
    expect(() => resolvePlace("/repo", url, "--store")).not.toThrow(/pw9|secret/);
  });

  test("takes everything else without :// after a scheme for a path", () => {
    const paths = ["store", "../a:b/c", "12:30", "a/b://c", "./postgers://u:pw@db", "C:\\store", "C://store", "://x"];
    for (const path of paths) expect(resolvePlace("/repo", path, "--store")).toMatch(/^\//);
    expect(resolvePlace("/repo", "a:b", "--store")).toBe("/repo/a:b");
  });

  test.each([
    ["postgers://holdfast:pw9secret@db/team", "postgers"],
    ["jdbc:postgresql://holdfast:pw9secret@db/team", "jdbc:postgresql"],
    ["jdbc:postgresql://db/team?user=u&password=pw9secret", "jdbc:postgresql"],
    ["HTTP://holdfast:pw9@secret@db/team", "HTTP"],
    ["postgres+ssl://pw9secret@db", "postgres+ssl"],
    ["file:///srv/pw9secret", "file"],
  ])("refuses %s, and shows no more of it than the scheme", (url, scheme) => {
    let refused: unknown;
    try {
      resolvePlace("/repo", url, "HOLDFAST_DISPATCH");
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(HoldfastError);
    expect(refused).toMatchObject({ code: "USAGE", message: expect.stringContaining(`HOLDFAST_DISPATCH`) as string });
    expect(String((refused as HoldfastError).message)).toContain(`${scheme}://…`);
    expect(JSON.stringify(refused) + String(refused)).not.toMatch(/pw9|secret/);
  });
});

test("withoutPassword masks the password of any URL, and leaves paths alone", () => {
  expect(withoutPassword("postgers://u:pw@x@db/team?sslpassword=q&a=1")).toBe(
    "postgers://u@db/team?sslpassword=***&a=1",
  );
  expect(withoutPassword("jdbc:postgresql://u:pw@db/team")).toBe("jdbc:postgresql://u@db/team");
  expect(withoutPassword("/data/a:b@c")).toBe("/data/a:b@c");
});
