import fc from "fast-check";
import { expect, test } from "vitest";
import { maskSecrets, secretValues } from "./mask.ts";

// Put together here, so that no scanner takes this file for a leak.
const SECRETS = [
  ["sk-ant-", "api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"],
  ["ghp", "_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"],
  ["AKIA", "IOSFODNN7EXAMPLE"],
  ["glpat-", "AbCdEfGhIjKlMnOpQrSt"],
  ["xoxb-", "123456789012-AbCdEfGhIj"],
  ["eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"],
  ["-----BEGIN RSA PRIVATE ", "KEY-----\\nMIIEpAIBAAKCAQEA\\n-----END RSA PRIVATE KEY-----"],
].map((parts) => parts.join(""));

test("keys of known makes are hidden wherever they stand; the rest of the line stays", () => {
  for (const secret of SECRETS) {
    const masked = maskSecrets(`{"text":"use ${secret} here"}`);
    expect(masked).toBe('{"text":"use *** here"}');
  }
});

test("what an assignment, a header or an address calls a secret is one", () => {
  const word = "Zx81".repeat(6);
  expect(maskSecrets(`export MY_API_KEY=${word}`)).toBe("export MY_API_KEY=***");
  expect(maskSecrets(`Authorization: Bearer ${word}`)).toBe("Authorization: Bearer ***");
  expect(maskSecrets(`"password": "${word}"`)).toBe('"password": "***"');
  expect(maskSecrets("https://me:hunter22@example.org/x.git")).toBe("https://me:***@example.org/x.git");
});

test("ordinary words, commit ids and paths are none", () => {
  for (const text of [
    "fixed the token parser in src/token.ts",
    "commit d666b9e1f00dfeedfacecafe0123456789abcdef",
    "a password must have 12 characters",
    "https://example.org:8080/path",
    '{"inputTokens":1200}',
  ])
    expect(maskSecrets(text)).toBe(text);
});

test("secrets of the environment are known by the names of their variables, in every form they take", () => {
  const values = secretValues({
    DEPLOY_TOKEN: 'my "own" secret',
    PATH: "/usr/bin:/bin",
    GH_PAT: "short",
    HOME: "/home/somebody",
  });
  expect(values).toHaveLength(3);
  expect(maskSecrets(`it is ${JSON.stringify('my "own" secret')}`, values)).toBe('it is "***"');
  expect(maskSecrets("my%20%22own%22%20secret", values)).toBe("***");
});

test("masking twice is masking once", () => {
  const line = fc
    .array(fc.oneof(fc.string(), fc.constantFrom(...SECRETS, "token=", "Bearer ", "://a:")))
    .map((all) => all.join(""));
  fc.assert(
    fc.property(line, fc.array(fc.string({ minLength: 8 }), { maxLength: 2 }), (text, values) => {
      const own = values.filter((value) => !value.includes("*"));
      const once = maskSecrets(text, own);
      expect(maskSecrets(once, own)).toBe(once);
    }),
  );
});
