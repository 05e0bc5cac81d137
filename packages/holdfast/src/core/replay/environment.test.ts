import fc from "fast-check";
import { expect, test } from "vitest";
import { pureSha256 } from "../sha256.ts";
import { changedVariables, describeEnvironment } from "./environment.ts";

const variables = fc.dictionary(fc.stringMatching(/^[A-Z]{3,8}$/), fc.string({ maxLength: 8 }), { maxKeys: 6 });
const describe = (of: Readonly<Record<string, string>>) => describeEnvironment(of, pureSha256);

test("the hash is of the variables, in whatever order they come", () => {
  fc.assert(
    fc.property(variables, (of) => {
      const turned = Object.fromEntries(Object.entries(of).toReversed());
      expect(describe(turned)).toEqual(describe(of));
      const more = { ...of, ZZ_NEW: "1" };
      expect(describe(more).hash).not.toBe(describe(of).hash);
      expect(changedVariables(describe(of).values, describe(more).values)).toEqual(["ZZ_NEW"]);
    }),
  );
});

test("terminals, sessions and our own variables are none of it", () => {
  const of = { LANG: "C" };
  const here = {
    ...of,
    PWD: "/a",
    SHLVL: "3",
    SSH_TTY: "/dev/1",
    HOLDFAST_MARK: "x",
    npm_command: "run",
    TERM: "dumb",
  };
  expect(describe(here)).toEqual(describe(of));
});

test("a secret's value is nowhere, not even in the hash", () => {
  const [a, b] = ["first-secret-value", "other-secret-value"].map((secret) =>
    describe({ API_KEY: secret, URL: `https://x/?k=${secret}`, SHORT_TOKEN: secret.slice(0, 3) }),
  );
  expect(a).toEqual(b);
  expect(JSON.stringify(a)).not.toMatch(/secret-value|"fir"/);
  expect(a?.values).toMatchObject({ API_KEY: "***", SHORT_TOKEN: "***" });
});
