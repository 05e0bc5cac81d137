import { describe, expect, test } from "vitest";
import { secretsInFile } from "./file-secrets.ts";
import { maskSecrets } from "./mask.ts";
import { findKnown, learnSecrets, learnedSecrets } from "./known-secrets.ts";

const valuesOf = (path: string, text: string): readonly string[] => secretsInFile(path, text).map(({ value }) => value);
const HEX = "a1b2c3d4e5f60718293a4b5c6d7e8f90";

describe("values that look like secrets", () => {
  test.each([
    [".env", "PGPASSWORD=correct-horse-7781", "correct-horse-7781"],
    [".env", "DB_PASS=correct-horse-7781", "correct-horse-7781"],
    [".env", "export MYSQL_PWD='correct-horse-7781'", "correct-horse-7781"],
    [".env", "DB_PASSWORD=hunter2", "hunter2"],
    [".env", "DB_PASSWORD=correcthorsebattery", "correcthorsebattery"],
    [".env", "DB_PASSWORD_2=x7-!", "x7-!"],
    [".env", "DATABASE_URL=postgres://app:p%40ss/w0rd-7781@db/x", "p%40ss/w0rd-7781"],
    [".env", "DATABASE_URL=postgres://app:p%40ss/w0rd-7781@db/x", "p@ss/w0rd-7781"],
    [".env", "REDIS=redis://:hunter2@cache:6379/@0", "hunter2"],
    ["ign/secrets.json", '{"apiKey": "correct-horse-7781"}', "correct-horse-7781"],
    ["a.json", '{"db": {"auth": {"user": "me", "pw": "hunter2"}}}', "hunter2"],
    ["a.json", '{"passwords": ["one-of-two", "two-of-two"]}', "two-of-two"],
    ["a.jsonc", '{\n  // staging\n  "apiKey": "correct-horse-7781", // ours\n}', "correct-horse-7781"],
    ["ign/secrets.yml", "db_password: correct-horse-7781", "correct-horse-7781"],
    ["a.yml", "db:\n  password: >-\n    correct-horse\n    battery\n", "correct-horse battery"],
    ["a.yml", "env: [{name: DB_PASSWORD, value: hunter2}]", "hunter2"],
    ["a.toml", '[db]\npassword = "correct-horse-7781"', "correct-horse-7781"],
    ["a.ini", "[db]\ndb.password=correct-horse-7781 ; ours", "correct-horse-7781"],
    [".npmrc", "//npm.example.org/:_authToken=correct-horse-7781", "correct-horse-7781"],
    ["ign/master.key", `${HEX}\n`, HEX],
    ["ign/master.key", "cGFzc3dvcmQtNzc4MQ==\n", "cGFzc3dvcmQtNzc4MQ=="],
    ["a.yml", "db: {host: db}\n# password: correct-horse-7781 # the old one\n", "correct-horse-7781"],
    [".env", "DB_USER=shop\nCONNECTION=host=db password=hunter2\nDB_PASSWORD=hunter2", "hunter2"],
    ["ign/vault-pass.txt", "correct-horse-7781\n", "correct-horse-7781"],
    ["ign/words", `${HEX}\n`, HEX],
    [".netrc", "machine a login b password Zx81kQ9vB7mW2pL4tR6y", "Zx81kQ9vB7mW2pL4tR6y"],
    [".env", "SENTRY=Zx81kQ9vB7mW2pL4-tR6y", "Zx81kQ9vB7mW2pL4-tR6y"],
  ])("%s: %j", (path, text, value) => {
    expect(valuesOf(path, text)).toContain(value);
  });

  test.each([
    "PORT=8080\nHOST=db.example.org\nNODE_ENV=development",
    "DB_PASSWORD=postgres\nJWT_SECRET=changeme\nDB_PASS=test1234\nADMIN_PASSWORD=password",
    "PASSWORD_FILE=run/secrets/db\nTOKEN_URL=https://auth.example.org/token\nAUTH_PROVIDER=github\nSESSION_KEY_PATH=/etc/key",
    "TOKEN_TTL=3600\nMAX_TOKENS=200000\nMONKEY=banana-split\nDB_PASS=agent\nKEYBOARD=qwertz-layout\nPIN_PASSWORD=1234",
    "GIT_COMMIT=d666b9e1f00dfeedfacecafe0123456789abcdef\nPROJECT=123e4567-e89b-12d3-a456-426614174000",
    "COLLATION=utf8mb4_unicode_520_ci\nIMAGE=arm64v8/node22-alpine3.20\nBUCKET=company-assets-eu-west-1\nAT=2026-11-18T08:12:20Z",
    "URL=http://localhost:3000/@scope/package\nDATABASE_URL=postgres://postgres:postgres@localhost/x\nDB_PASSWORD=${FROM_VAULT}",
    "POSTGRES_USER=webshop-dev\nPOSTGRES_PASSWORD=webshop-dev\nDB=postgres://orders-db:orders-db@localhost/orders-db",
    '{\n  "private": true,\n  "dependencies": {\n    "jsonwebtoken": "^9.0.2",\n    "visitor-keys": "~8.54.0"\n  }\n}',
    '{"compilerOptions": {"target": "ES2022", "moduleResolution": "bundler"}, "enableIpv6ForV2Pages": "getUserById2FromV3Api"}',
    '{"key": "ctrl+shift+p", "tags": [{"Key": "cost-center", "Value": "web"}], "tokenSchema": {"$ref": "TokenSchema.yaml"}}',
    "permissions:\n  id-token: write  # for publishing\nenv:\n  TOKEN: ${{ secrets.TOKEN }}\ncache:\n  key: ${{ runner.os }}-npm\n",
    "auth: auth-7.internal.example.org:8443\nhosts: [ip-10-0-12-34.eu-west-1.compute.internal]\ncert: certs/server-01.crt\n",
    "doc: |\n  Pass key=value pair in header. The token: see below.\ncredentialKind: {enum: [ACCESS_TOKEN, FROM_PLUGIN]}\n",
    '{"integrity": "sha512-h8o7ZyfDCFiTgZzWBd3bLOHbEr1kd3JvyhTqqdHgqsKXqUyBBsGEfx3Ee9Xk0Tq9zRkGQpbZ8sqQxwUzJcmL3A=="}',
    '{"theme": "dark", "keys": {"submit": "Enter"}, "auth": {"enabled": true, "user": "me-myself"}, "version": "0.2.0"}',
  ])("none in %j", (text) => {
    expect(valuesOf("a.local", text)).toEqual([]);
  });

  test("a document that is deep, broken or full of aliases is read without an error", () => {
    expect(valuesOf("a.json", "[".repeat(50_000) + "]".repeat(50_000))).toEqual([]);
    expect(valuesOf("a.yml", "a: &a [x]\nb: *c\npassword: still-found")).toEqual(["still-found"]);
    expect(valuesOf("a.json", '{"password": "still-found"')).toContain("still-found");
  });
});

test("a short value and a word count only as a whole word; other forms count everywhere", () => {
  learnSecrets(secretsInFile(".env", "DB_PASS=hunter2\nAPI_TOKEN=zk81-secret-value"));
  const mask = (text: string): string => maskSecrets(text, learnedSecrets());
  expect(mask('u:hunter2@h "hunter2" hunter2\\n hunter20 myhunter2')).toBe('u:***@h "***" ***\\n hunter20 myhunter2');
  expect(mask(`xzk81-secret-valuex ${btoa("hunter2")}`)).toBe("x***x ***I=".replace("I=", btoa("hunter2").slice(-3)));
});

// This test reads no clock: a search for each form in each line would exceed the timeout of the test.
test("10 MB of output are masked with 200 known values, line by line", () => {
  const text = Array.from({ length: 200 }, (_, index) => `SERVICE_${index}_TOKEN=value-number-${index}-of-a-secret`);
  learnSecrets(secretsInFile(".env", text.join("\n")));
  const known = learnedSecrets();
  expect(known.length).toBeGreaterThan(1000);
  const line = "2026-11-18 the agent edits src/checkout/price.ts and runs the tests of the module again, all of them";
  let found = 0;
  for (let at = 0; at < 100_000; at += 1)
    found += findKnown(at % 1000 === 0 ? `${line} ${text[at % 200]}` : line, known).length;
  expect(found).toBe(100);
  const long = "a".repeat(1_000_000);
  expect(findKnown(long, [...known, { name: "A", value: "a".repeat(20) }])).toEqual([
    { start: 0, end: long.length, name: "A" },
  ]);
});
