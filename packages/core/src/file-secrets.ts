// The secrets of a file that the user copies into worktrees (`workspace.copy`): its content as a whole, and the values in it that look like
// secrets, by their name or by their form.

import { createHash } from "node:crypto";
import { parseEnv } from "node:util";
import { parseYaml } from "@holdfast/platform/yaml";
import { sha256 } from "./json.ts";
import {
  type KnownSecret,
  MAX_SEARCHED,
  SHORTEST,
  isGuessable,
  isPath,
  isSecretPart,
  isShortNumber,
  learnBlobs,
  learnSecrets,
  partsOf,
  passwordsOfUrl,
} from "./known-secrets.ts";

/** Masks the secrets of the file from now on, and knows its content when something is pushed. */
export function learnFile(path: string, bytes: Buffer): void {
  const digest = sha256(bytes);
  if (seen.has(digest)) return;
  seen.add(digest);
  learnBlobs(path, blobIds(bytes));
  if (bytes.length <= MAX_SEARCHED) learnSecrets(secretsInFile(path, bytes.toString("utf8")));
}

const seen = new Set<string>();

/** Files that are shorter, such as an empty one or `{}`, occur everywhere. */
const SHORTEST_FILE = 8;

/** The ids that git gives the content, with each line ending, and with and without one at the end. */
function blobIds(bytes: Buffer): readonly string[] {
  if (bytes.toString("latin1", 0, MAX_SEARCHED).trim().length < SHORTEST_FILE) return [];
  const contents = new Set([bytes.toString("latin1")]);
  if (bytes.length <= MAX_SEARCHED) {
    const lines = bytes.toString("latin1").replaceAll("\r\n", "\n").replace(/\n+$/, "");
    for (const text of [lines, `${lines}\n`]) contents.add(text).add(text.replaceAll("\n", "\r\n"));
  }
  return [...contents].flatMap((content) =>
    ["sha1", "sha256"].map((algorithm) =>
      createHash(algorithm).update(`blob ${content.length}\0`).update(content, "latin1").digest("hex"),
    ),
  );
}

/**
 * The values in the file that look like secrets: in `NAME=value` lines, JSON and YAML, other assignments such as those of INI and TOML, and in
 * a file that is one value. A word that is also the value of another name, such as that of the database, is ordinary.
 */
export function secretsInFile(path: string, text: string): readonly KnownSecret[] {
  const found = new Map<string, KnownSecret>();
  const add = (name: string, value: string): void => {
    if (found.has(value) || found.size === MOST) return;
    found.set(value, { name, value, isWord: value.length < SHORTEST || isGuessable(value) });
  };
  const values = valuesIn(path, text);
  const ordinary = new Set(values.flatMap(([name, value]) => (mayNameSecret(name) ? [] : ordinaryIn(value))));
  for (const [name, value] of values)
    for (const one of isSecretByName(name, value) ? [value] : passwordsOfUrl(value).filter(isUncommon))
      if (!ordinary.has(one) || !WORDS.test(one)) add(name === path ? path : `${name} in ${path}`, one);
  for (const [key] of text.matchAll(/-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----[^-]{100,20000}-----END/g))
    add(path, key);
  for (const [index, line] of text.split("\n").entries())
    for (const [value] of line.matchAll(/[A-Za-z0-9+_-]{16,2000}={0,2}/g))
      if (isRandom(value)) add(`${path}:${index + 1}`, value);
  return [...found.values()];
}

/** More of them are data, such as digests of packages. */
const MOST = 1000;
const WORDS = /^[A-Za-z]+(?:[._-][A-Za-z]+)*$/;

/** The value, and the user and the path of a URL. */
function ordinaryIn(value: string): readonly string[] {
  const [, user = "", rest = ""] = /^[a-z][a-z0-9+.-]*:\/\/([^\s/:@]*)[^\s/]*@[^\s/@]*\/?([^\s/?]*)/i.exec(value) ?? [];
  return [value, user, rest];
}

type Value = readonly [name: string, value: string];

function valuesIn(path: string, text: string): readonly Value[] {
  const document = parseDocument(text);
  const isDocument = typeof document === "object" && document !== null;
  const whole: readonly Value[] = /^\s*\S+\s*$/.test(text) ? [[path, text.trim()]] : [];
  // The lines are read too: a document has comments, and a variable may be assigned twice.
  return [...(isDocument ? leavesOf("", document) : variablesIn(text)), ...assignmentsIn(text), ...whole];
}

/** Node's parser reads values of several lines. */
function variablesIn(text: string): readonly Value[] {
  return Object.entries(parseEnv(text)).map(([name, value = ""]) => [name, value] as const);
}

/** A value with spaces and without quotes may be prose. */
function assignmentsIn(text: string): readonly Value[] {
  return Array.from(text.matchAll(ASSIGNMENT), ([, name = "", value = ""]) => {
    const whole = value.trim();
    const quoted = /^(["'`])(.*?)\1/.exec(whole)?.[2];
    const plain = whole.replaceAll(/^["'`]|\s[#;].*$/g, "").replace(/[\s,;"'`]+$/, "");
    return [name, quoted ?? (/\s/.test(plain) ? "" : plain)] as const;
  });
}

/** The first assignment of each line, with `=` or `:`. Names can have dots and dashes, and can be in quotes. */
const ASSIGNMENT = /^.{0,200}?([A-Za-z_][\w.-]{0,200})["']?[ \t]{0,20}[:=](.*)$/gm;

/** null: the text is neither JSON nor YAML. */
function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    if (text.length > LONGEST_YAML || !MAYBE_YAML.test(text)) return null;
    const yaml = parseYaml(text);
    return yaml.ok ? yaml.value : null;
  }
}

/** The parser of YAML needs a second for each megabyte. */
const LONGEST_YAML = 128 * 1024;
const MAYBE_YAML = /^\s{0,20}(?:[{[]|- |["']?[\w./-]{1,200}["']?\s{0,20}:(?:\s|$))/m;

/** The strings in a document with the path of keys to each. An item such as `{name: DB_PASSWORD, value: x}` has its own name too. */
function leavesOf(name: string, value: unknown, depth = 0): readonly Value[] {
  if (typeof value === "string") return name === "" ? [] : [[name, value]];
  if (typeof value !== "object" || value === null || depth > DEEPEST) return [];
  if (Array.isArray(value)) return value.flatMap((item: unknown) => leavesOf(name, item, depth + 1));
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value);
  const { name: named, value: given } = Object.fromEntries(entries);
  const own: readonly Value[] = typeof named === "string" && typeof given === "string" ? [[named, given]] : [];
  return [...own, ...entries.flatMap(([key, item]) => leavesOf(name === "" ? key : `${name}.${key}`, item, depth + 1))];
}

const DEEPEST = 100;

/**
 * A name that contains a word such as `password` or `token`, unless its last word tells that the value is something else (`TOKEN_URL`).
 * `key`, `auth` and similar words count only in the last name of a path, and only before what could be a key.
 */
function isSecretByName(name: string, value: string): boolean {
  if (!isUncommon(value) || isPath(value) || !mayNameSecret(name)) return false;
  return partsOf(name).some(isSecretPart) || isKey(value);
}

/**
 * Wider than `isSecretName`: a file has names such as `auth` or `cert`, which as variables (`NODE_EXTRA_CA_CERTS`) must reach agents. And
 * narrower: most names in a file that end in `url` or `path` describe a secret.
 */
function mayNameSecret(name: string): boolean {
  const last = partsOf(name.split(/[./]/).at(-1) ?? "");
  if (DESCRIPTIONS.has(last.at(-1) ?? "")) return false;
  return partsOf(name).some(isSecretPart) || last.some((part) => KEY_PART.test(part));
}

const KEY_PART =
  /^(?:api|secret|access|private|master|auth|sign|signing|encryption)?keys?$|^(?:auth|private|certs?|salt|cookie|jwt)$/;

/** Without spaces, with a digit or long, and neither a word, a URL nor the name of a host. */
function isKey(value: string): boolean {
  if (value.length < SHORTEST || isGuessable(value) || !(/\d/.test(value) || value.length >= 16)) return false;
  return !/\s|^[a-z][a-z0-9+.-]*:\/\/|^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::\d+)?$/.test(value);
}

/** Last words of names whose value is not the secret itself. */
const DESCRIPTIONS = words(
  "url uri endpoint host hostname port domain path file filename dir directory folder name user username login email",
  "type kind mode enum ref provider driver strategy scheme format algorithm alg policy issuer audience scope scopes region version header prefix suffix",
  "ttl expiry expires expiration at date time seconds ms timeout age length size count limit max min enabled disabled required",
  "description title label placeholder comment help",
);

/** Long enough, and neither a number, a version, a reference, a file, a short word nor one that thousands of repositories contain. */
function isUncommon(value: string): boolean {
  if (value.length < (isGuessable(value) ? SHORTEST : SHORTEST_NAMED) || isShortNumber(value)) return false;
  return !NO_SECRET.some((form) => form.test(value)) && !COMMON.has(value.toLowerCase().replace(/\d{1,4}$/, ""));
}

const SHORTEST_NAMED = 4;

const NO_SECRET = [
  /^(?:\*+|\$\w+|<.*>)$|\$\{|\{\{|\$\(/,
  /^[~^<>=v ]{0,4}\d{1,6}(?:\.(?:\d{1,6}|x|\*)){1,3}(?:[-+][\w.-]*)?$/,
  /^[\w./-]+\.(?:ya?ml|json|toml|ini|cfg|conf|env|txt|xml|pem|key|crt|cer|p12|pfx|jks|db|sqlite|[jt]sx?|py|rb|sh)$/i,
  // Constants such as ACCESS_TOKEN.
  /^[A-Z]{1,24}(?:_[A-Z]{1,24})*$/,
];

const COMMON = words(
  "true false null none undefined auto default optional required enabled disabled empty unset",
  "test tests testing dev devel develop development local localhost prod production staging stage sandbox demo sample example dummy fake mock",
  "admin administrator root user username guest login public private anonymous owner name email",
  "password passwd passphrase pass secret secrets token tokens key keys apikey credential credentials auth my-secret mysecret mypassword",
  "changeme change-me change_me changeit letmein welcome qwerty todo tbd xxxx placeholder insecure",
  "postgres postgresql mysql mariadb mongo mongodb redis rabbitmq minio minioadmin elastic sqlite docker django rails node",
  "bearer basic digest oauth oauth2 session cookie header string number boolean text json yaml base64 hmac sha256 sha512 hs256 rs256 es256",
  "running queued waiting stopped failed finished done saved completed started pending active closed open ready error success",
);

function words(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(" ")));
}

/**
 * Whether 16 letters and digits in a row change between small letters, capitals and digits as often as in a random text, and are not mostly
 * words, as a name in code is. Commit ids and digests are not secrets, and would be masked in the records of a run.
 */
function isRandom(value: string): boolean {
  if (/^sha\d{1,3}-/.test(value)) return false;
  return (value.match(/[A-Za-z0-9]{16,}/g) ?? []).some((run) => {
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(run) || !/\d/.test(run) || !/[A-Za-z]/.test(run)) return false;
    const changes = run.match(/[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|\d(?=[A-Za-z])/g) ?? [];
    const inWords = run.match(/[A-Z]?[a-z]{2,}/g)?.join("").length ?? 0;
    const isName = /[A-Z]/.test(run) && inWords > run.length * 0.6;
    return changes.length >= Math.max(6, run.length / 5) && !isName;
  });
}
