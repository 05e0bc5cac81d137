import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createLineMask, findSecrets, hasOutsideEffect, maskSecrets, maskValue, removeMentions } from "./mask.ts";
import { secretValues } from "./known-secrets.ts";

describe("defuse", () => {
  const shown = (text: string): string => text.replaceAll("\u200B", "");
  const body = (text: string): string => removeMentions(text, { own: 42, kind: "markdown" });
  /** How GitHub and GitLab see it. */
  const closes =
    /\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?\s+[\w./:-]*(?:#|\/|GH-)\d+/i;
  const mentions = /(?<![\w.+/-])@[A-Za-z0-9]/;

  test.for([
    "Closes #77",
    "fixes: #77",
    "Resolves owner/repo#77",
    "This fixed https://github.com/owner/repo/issues/77 at last",
    "closes GH-77",
    "Implements group/sub/project#77",
  ])("another issue is not closed: %s", (text) => {
    const safe = body(text);
    expect(safe).not.toMatch(closes);
    expect(shown(safe)).toBe(text);
  });

  test("the run's own issue is closed, others next to it are not", () => {
    expect(body("Done.\n\nCloses #42")).toBe("Done.\n\nCloses #42");
    expect(body("Closes #42, #77 and owner/repo#42")).toBe("Closes #42, #\u200B77 and owner/repo#\u200B42");
    expect(removeMentions("Closes #42", { own: null, kind: "plain" })).toBe("Closes #\u200B42");
    expect(body("Closes #420")).not.toMatch(closes);
  });

  test.for(["@everyone look", "cc @here", "thanks @octocat!", "(@org/team)", "@all"])(
    "a mention has no effect: %s",
    (text) => {
      const safe = body(text);
      expect(safe).not.toMatch(mentions);
      expect(shown(safe)).toBe(text);
    },
  );

  test.for([
    "Closes      #77",
    "Closes\u00a0#77",
    "a/b/c/d/e: fixes a/b/c/d/e#77",
    `closes ${"#7, ".repeat(40)}#8`,
    "closes #1 , #78",
  ])("spaces, long paths and long lists do not hide a reference: %s", (text) => {
    expect(body(text)).not.toMatch(/#\d/);
    expect(shown(body(text))).toBe(text);
  });

  test.for([".@all", "-@octocat", "/@all", "_@everyone_", "```\nopen fence @all"])("%s mentions no user", (text) => {
    expect(body(text)).not.toMatch(/@[A-Za-z0-9]/);
  });

  test("code, addresses and plain numbers stay as they are", () => {
    for (const text of [
      "`@Injectable()` is used",
      "```ts\n@Component({})\n```",
      "write to me@example.org",
      "see #77 for why",
      "it fixes 3 bugs",
    ])
      expect(body(text)).toBe(text);
    expect(removeMentions("use `@everyone` now", { own: null, kind: "plain" })).not.toMatch(mentions);
  });

  test("a second pass changes nothing, and readers see the same text", () => {
    const words = fc.constantFrom("Closes #77", "@here", "fixes a/b#1, #2", "```", "`", "\n", " ", "#42", "x", "GH-1");
    fc.assert(
      fc.property(fc.array(words), (all) => {
        const text = all.join(" ");
        const once = body(text);
        expect(body(once)).toBe(once);
        expect(shown(once)).toBe(text);
      }),
    );
  });

  test("a commit message is asked about when it closes another issue or notifies a group, not for code that looks like a mention", () => {
    for (const message of [
      "Fixes #77",
      "Fixes     #77",
      "thanks @everyone",
      "(.@all)",
      "@here: done",
      "closes #42 and #7",
    ])
      expect(hasOutsideEffect(message, 42), message).toBe(true);
    for (const message of [
      "Bump @types/node",
      "Closes #42",
      "Use @all/things and @here-doc",
      "@param x",
      "mail a@all.example",
    ])
      expect(hasOutsideEffect(message, 42), message).toBe(false);
  });
});

describe("mask", () => {
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

  test("keys of known providers are masked anywhere; the rest of the line stays", () => {
    for (const secret of SECRETS) {
      const masked = maskSecrets(`{"text":"use ${secret} here"}`);
      expect(masked).toBe('{"text":"use *** here"}');
    }
  });

  test("a value that an assignment, a header or a URL marks as secret is masked", () => {
    const word = "Zx81".repeat(6);
    expect(maskSecrets(`export MY_API_KEY=${word}`)).toBe("export MY_API_KEY=***");
    expect(maskSecrets(`Authorization: Bearer ${word}`)).toBe("Authorization: Bearer ***");
    expect(maskSecrets(`"password": "${word}"`)).toBe('"password": "***"');
    expect(maskSecrets("https://me:hunter22@example.org/x.git")).toBe("https://me:***@example.org/x.git");
  });

  test("ordinary words, commit ids and paths are not masked", () => {
    for (const text of [
      "fixed the token parser in src/token.ts",
      "commit d666b9e1f00dfeedfacecafe0123456789abcdef",
      "a password must have 12 characters",
      "https://example.org:8080/path",
      '{"inputTokens":1200}',
    ])
      expect(maskSecrets(text)).toBe(text);
  });

  test("secrets of the environment are detected by variable name, in every encoding", () => {
    const values = secretValues({
      DEPLOY_TOKEN: 'my "own" secret',
      PATH: "/usr/bin:/bin",
      GH_PAT: "short",
      HOME: "/home/user",
    });
    expect(new Set(values.map(({ name }) => name))).toEqual(new Set(["DEPLOY_TOKEN"]));
    expect(maskSecrets(`it is ${JSON.stringify('my "own" secret')}`, values)).toBe('it is "***"');
    expect(maskSecrets("my%20%22own%22%20secret", values)).toBe("***");
  });

  test("masking twice is masking once", () => {
    const line = fc
      .array(fc.oneof(fc.string(), fc.constantFrom(...SECRETS, "token=", "Bearer ", "://a:")))
      .map((all) => all.join(""));
    fc.assert(
      fc.property(line, fc.array(fc.string({ minLength: 8 }), { maxLength: 2 }), (text, values) => {
        const own = values.filter((value) => !value.includes("*")).map((value) => ({ name: "OWN", value }));
        const once = maskSecrets(text, own);
        expect(maskSecrets(once, own)).toBe(once);
      }),
    );
  });

  test("base64, hexadecimal and URL forms of a known secret are masked, at any offset", () => {
    const secret = "hunter2-is-my/pass+word";
    const known = secretValues({ DEPLOY_PASSWORD: secret });
    for (const before of ["", "a", "ab", "user:"])
      for (const after of ["", "!", "!!"]) {
        const bytes = new TextEncoder().encode(`${before}${secret}${after}`);
        const text = btoa(String.fromCharCode(...bytes));
        for (const form of [text, text.replaceAll("+", "-").replaceAll("/", "_")]) {
          const masked = maskSecrets(`it is ${form}.`, known);
          expect(masked).toContain("***");
          expect(masked.replaceAll("***", "").length).toBeLessThan("it is .".length + 12);
        }
      }
    expect(maskSecrets(Buffer.from(secret).toString("hex"), known)).toBe("***");
    expect(maskSecrets(encodeURIComponent(secret), known)).toBe("***");
  });

  test("the password of a URL in the environment is a secret by itself", () => {
    const known = secretValues({ DATABASE_URL: "postgres://me:s3cretly-long@db/x" });
    expect(maskSecrets("PGPASSWORD is s3cretly-long here", known)).toBe("PGPASSWORD is *** here");
  });

  const KEY_LINES = Array.from({ length: 6 }, (_, index) => `${"MIIEpAIBAAKCAQEAx7Z0".repeat(3)}${index}abc`);
  const KEY = ["-----BEGIN OPENSSH PRIVATE ", "KEY-----"].join("");
  const KEY_END = ["-----END OPENSSH PRIVATE ", "KEY-----"].join("");

  test("a private key without its end is masked to the end", () => {
    const text = `before\n${KEY}\n${KEY_LINES.join("\n")}\nafter it`;
    const masked = maskSecrets(text);
    for (const line of KEY_LINES) expect(masked).not.toContain(line.slice(0, 12));
    expect(masked).toMatch(/^before\n\*\*\*\s*after it$/);
  });

  test.for([
    ["plain", (line: string) => line],
    ["as a diff", (line: string) => `+${line}`],
    ["with line numbers", (line: string) => `   12\t${line}`],
    ["in code", (line: string) => `    "${line}\\n" +`],
  ] as const)("a private key that comes line by line is masked: %s", ([, shape]) => {
    const mask = createLineMask(maskSecrets);
    const lines = ["first", KEY, ...KEY_LINES, KEY_END, "last line of it"].map((line) => mask(shape(line)));
    expect(lines.at(0)).toBe(shape("first"));
    expect(lines.at(-1)).toBe(shape("last line of it"));
    for (const line of KEY_LINES) expect(lines.join("\n")).not.toContain(line.slice(0, 12));
  });

  test("after a key that has no end, ordinary lines stay", () => {
    const mask = createLineMask(maskSecrets);
    const lines = [KEY, KEY_LINES[0] ?? "", "And this is a sentence.", "So is this."].map((line) => mask(line));
    expect(lines).toEqual(["***", "***", "And this is a sentence.", "So is this."]);
  });

  test("the secret half of an AWS key pair is masked near its id; a commit id is none", () => {
    const id = ["AKIA", "IOSFODNN7EXAMPLF"].join("");
    const secret = ["wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"].join("");
    expect(maskSecrets(`${id},${secret}`)).toBe("***,***");
    expect(maskSecrets(`aws_secret_access_key = ${secret}`)).toBe("aws_secret_access_key = ***");
    const mask = createLineMask(maskSecrets);
    expect([id, "", secret].map((line) => mask(line))).toEqual(["***", "", "***"]);
    const commit = "d666b9e1f00dfeedfacecafe0123456789abcdef";
    expect(maskSecrets(`${id} ${commit}`)).toBe(`*** ${commit}`);
    expect(maskSecrets(`near nothing: ${secret}`)).toContain(secret);
  });

  test("code that only names a secret stays unchanged", () => {
    for (const text of [
      "const token = process.env.GITHUB_TOKEN_FOR_CI",
      "password: settings.database.password",
      "apiKey = readTheKeyFromTheVault",
      "  token: ${{ secrets.GITHUB_TOKEN }}",
      "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
      '"integrity": "sha512-abc"',
    ])
      expect(maskSecrets(text)).toBe(text);
  });

  test("a value keeps its shape, and stays the same object where nothing is masked", () => {
    const secret = SECRETS[1] ?? "";
    const mask = (text: string): string => maskSecrets(text);
    const clean = { a: [1, "two", { b: null }], key: "holdfast/1" };
    expect(maskValue(clean, mask)).toBe(clean);
    expect(maskValue({ a: ["x", secret], password: "qwertzuiop", token: "stays-as-it-is" }, mask)).toEqual({
      a: ["x", "***"],
      password: "***",
      token: "stays-as-it-is",
    });
  });

  test("a finding has a kind, and never the secret", () => {
    const secret = SECRETS[1] ?? "";
    const found = findSecrets(`x ${secret} and my-own-value`, [{ name: "OWN_TOKEN", value: "my-own-value" }]);
    expect(found.map(({ kind }) => kind)).toEqual(["GitHub token", "value of OWN_TOKEN"]);
    expect(JSON.stringify(found)).not.toContain(secret);
  });

  test("in JSON, a number and a state word that equal a secret stay; a text or a key that holds it is masked", () => {
    const known = secretValues({ PIN_TOKEN: "123456789012", API_TOKEN: "zk81-secret-value" });
    const own = [...known, { name: "WORD", value: "completed" }];
    const value = {
      kind: "completed",
      tokens: 123_456_789_012,
      list: [123_456_789_012, "pin 123456789012", "completed"],
      "zk81-secret-value": { text: "completed with zk81-secret-value" },
    };
    const expected = {
      kind: "completed",
      tokens: 123_456_789_012,
      list: [123_456_789_012, "pin ***", "***"],
      "***": { text: "*** with ***" },
    };
    const mask = (text: string): string => maskSecrets(text, own);
    for (const indent of [undefined, 2])
      expect(mask(JSON.stringify(value, null, indent))).toBe(JSON.stringify(expected, null, indent));
    expect(maskValue(value, mask)).toEqual(expected);
    // Each line of a stream by itself, and only where it is JSON.
    const line = JSON.stringify(value);
    expect(mask(`${line}\nthe pin is 123456789012\n${line}\n`)).toBe(
      `${JSON.stringify(expected)}\nthe pin is ***\n${JSON.stringify(expected)}\n`,
    );
    expect(createLineMask((text) => maskSecrets(text, own))(line)).toBe(JSON.stringify(expected));
    expect(mask('{"a\\"b": "c\\\\", "n": 123456789012}')).toBe('{"a\\"b": "c\\\\", "n": 123456789012}');
    expect(mask("{not JSON: 123456789012}")).toBe("{not JSON: ***}");
  });

  test("any JSON stays JSON with the same numbers, names of fields and shape, whatever is secret", () => {
    const word = fc.constantFrom("running", "12345678", "kind", "1e21", "a-b", '"', "\\", "null", "done");
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.array(fc.oneof(word, fc.string({ minLength: 4 })), { maxLength: 4 }),
        (value, values) => {
          const own = values.map((text) => ({ name: "OWN", value: text }));
          const text = JSON.stringify({ kind: "running", n: 12_345_678, value });
          if (own.some((one) => /["*\\]/.test(one.value))) return;
          // Keys that are not names of fields may be masked too, so only their values are compared.
          const blank = (json: unknown): unknown =>
            JSON.parse(JSON.stringify(json), (_key, item: unknown) => {
              if (typeof item === "string") return "";
              const isObject = typeof item === "object" && item !== null && !Array.isArray(item);
              return isObject
                ? Object.entries(item).map(([key, one]) => (/^[a-z]+$/i.test(key) ? [key, one] : one))
                : item;
            });
          const masked: unknown = JSON.parse(maskSecrets(text, own));
          expect(blank(masked)).toEqual(blank(JSON.parse(text)));
          expect(masked).toMatchObject({ kind: "running", n: 12_345_678 });
        },
      ),
    );
  });

  test("an ordinary word or a short number in the environment is not taken for a secret; a phrase and a key are", () => {
    const names = (value: string): number => secretValues({ DEPLOY_TOKEN: value }).length;
    for (const value of ["running", "completed", "postgres", "12345678"]) expect(names(value), value).toBe(0);
    for (const value of [
      "hunter2hunter2",
      "123456789012",
      "a value of my own",
      "correcthorsebatterystaple",
      "correct-horse-battery",
    ])
      expect(names(value), value).toBeGreaterThan(0);
  });

  // This test reads no clock: a pattern with quadratic time would exceed the timeout of the test.
  test("200 KB of hostile text is masked in bounded time", () => {
    for (const piece of [
      `${KEY}\n`,
      "eyJaaaaaaaa-",
      "token=",
      "a://b:",
      "AKIAIOSFODNN7EXAMPLE ",
      "-",
      "A".repeat(39),
      "password=a1",
    ]) {
      const masked = maskSecrets(piece.repeat(Math.ceil(200_000 / piece.length)));
      expect(maskSecrets(masked) === masked, piece).toBe(true);
    }
  });

  test("a known secret is found in JSON inside of JSON, with escaped slashes, and in ASCII", () => {
    const secret = 'pa"ss\\wo/rdé-9';
    const known = secretValues({ DEPLOY_TOKEN: secret });
    const once = JSON.stringify({ text: secret });
    for (const text of [
      once,
      JSON.stringify({ nested: once }),
      once.replaceAll("/", "\\/"),
      once.replaceAll("é", "\\u00e9"),
    ])
      expect(maskSecrets(text, known), text).not.toMatch(/ss|wo|rd/);
  });
});
