// Secrets that are known by their value: those of environment variables with secret names, and those of files that the user copies into
// worktrees. Knows the encodings in which they occur, and finds them in text.

export const MASK = "***";

/** A secret known by its value, whatever its format, and what holds it: `DB_PASS`, `DB_PASS in .env`, `.env:3`. */
export interface KnownSecret {
  readonly name: string;
  readonly value: string;
  /** It is short or one word, so that it counts only where no letter, digit or underscore is next to it. */
  readonly isWord?: boolean;
}

/**
 * Values of variables with secret names, and passwords in URLs, in every form that they take in text. The forms are: plain,
 * line by line, in JSON and HTML, URL-encoded, in base64 (at any offset) and in hexadecimal.
 */
export function secretValues(environment: Variables): readonly KnownSecret[] {
  return formsOf(secretsOfVariables(environment));
}

type Variables = Readonly<Record<string, string | undefined>>;

/** The secrets that this process knows now: of its environment, of `more`, and those that it has learned. The same array while none changes. */
export function ownSecrets(more: Variables = {}): readonly KnownSecret[] {
  const environment = secretsOfVariables({ ...process.env, ...more });
  const key = JSON.stringify(environment);
  const found = learnedSecrets();
  if (own.key !== key || own.learned !== found) own = { key, learned: found, all: [...formsOf(environment), ...found] };
  return own.all;
}

let own: { readonly key: string; readonly learned: readonly KnownSecret[]; readonly all: readonly KnownSecret[] } = {
  key: "",
  learned: [],
  all: [],
};

/** Masks these values from now on. A name may occur several times. Every mask and search of the process uses them, and none is forgotten. */
export function learnSecrets(secrets: readonly KnownSecret[]): void {
  addForms(secrets, learned);
}

const learned = new Map<string, KnownSecret>();
let listed: readonly KnownSecret[] = [];

/** Calls `learn` before the next text is masked or searched: most library calls do neither. */
export function learnLater(learn: () => void): void {
  later.push(learn);
}

const later: (() => void)[] = [];

/** The same array until the process learns another secret. */
export function learnedSecrets(): readonly KnownSecret[] {
  for (const learn of later.splice(0)) learn();
  if (listed.length !== learned.size) listed = [...learned.values()];
  return listed;
}

/** A push must not contain a blob with one of these ids: it is a copy of the user's file. */
export function learnBlobs(path: string, ids: readonly string[]): void {
  for (const id of ids) blobs.set(id, path);
}

const blobs = new Map<string, string>();

/** The paths of copied files by blob id. */
export function copiedBlobs(): ReadonlyMap<string, string> {
  return blobs;
}

/** A larger file is data. Its content as a whole is secret, but no value is searched for in it. */
export const MAX_SEARCHED = 1024 * 1024;
/** Masking shorter values of the environment would hide ordinary words. */
export const SHORTEST = 8;
/** No status word is longer. */
export const LONGEST_WORD = 24;

/** Whether an environment variable with this name holds a secret. */
export function isSecretName(variable: string): boolean {
  return KEY_NAME.test(variable) || (variable !== "PWD" && partsOf(variable).some(isSecretPart));
}

const KEY_NAME = /(?:^|_)(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION)_?KEY(?:_|$)|_KEY$/i;

/** The words of a name in camel case, with underscores, dots or dashes, in lower case and without digits at the end. */
export function partsOf(name: string): readonly string[] {
  return name
    .split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/)
    .map((part) => part.toLowerCase().replace(/\d+$/, ""));
}

/** Whether this word makes a name that of a secret, such as `password` and `PGPASSWORD`. */
export function isSecretPart(part: string): boolean {
  return /^(?:pass|pwd|pw|dsn|pat)$|(?:password|passwd|passphrase|secret|credential)s?$|token$/.test(part);
}

/**
 * A single ordinary word or a short number. Masking it everywhere would change unrelated words and numbers, such as a
 * run's status. It would protect nothing, because such a value can be guessed.
 */
export function isGuessable(value: string): boolean {
  return value.length < LONGEST_WORD && (isShortNumber(value) || /^[A-Za-z]?[a-z]+$/.test(value));
}

export function isShortNumber(value: string): boolean {
  return /^\d{1,11}$/.test(value);
}

/** A path to a credentials file is not a secret. */
export function isPath(value: string): boolean {
  return /^\.{0,2}\/[\w./-]*$/.test(value);
}

/**
 * What may be the password of a URL, as it is there and decoded; empty: there is none. It may contain slashes and `@`. Digits before a
 * slash are a port.
 */
export function passwordsOfUrl(value: string): readonly string[] {
  const [, after = ""] =
    /^[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{0,100}:(?!\d{1,5}(?:\/|$))(\S{4,400})/i.exec(value) ?? [];
  const ends = new Set([after.indexOf("@"), after.lastIndexOf("@")]);
  return [...ends].filter((end) => end >= 3).flatMap((end) => [after.slice(0, end), decoded(after.slice(0, end))]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function secretsOfVariables(variables: Variables): readonly KnownSecret[] {
  return Object.entries(variables).flatMap(([name, value = ""]) => {
    const isLong = (text: string): boolean => text.length >= SHORTEST && text !== MASK;
    const isOwn = isSecretName(name) && !isGuessable(value) && !isPath(value);
    const values = isOwn ? [value] : passwordsOfUrl(value);
    return values.filter(isLong).map((one) => ({ name, value: one }));
  });
}

function formsOf(secrets: readonly KnownSecret[]): readonly KnownSecret[] {
  const found = new Map<string, KnownSecret>();
  addForms(secrets, found);
  return [...found.values()];
}

function addForms(secrets: readonly KnownSecret[], to: Map<string, KnownSecret>): void {
  for (const { name, value, isWord = false } of secrets) {
    for (const form of plainForms(value))
      if (!to.has(form) && (isWord || form.length >= SHORTEST)) to.set(form, { name, value: form, isWord });
    for (const form of encodedForms(value))
      if (!to.has(form) && form.length >= SHORTEST) to.set(form, { name, value: form });
  }
}

function plainForms(secret: string): readonly string[] {
  return [secret, secret.toWellFormed().trim(), ...jsonForms(secret)];
}

function encodedForms(secret: string): readonly string[] {
  const value = secret.toWellFormed();
  const lines = value.includes("\n") ? value.split(/\r?\n/).filter((line) => line.length >= 2 * SHORTEST) : [];
  const bytes = new TextEncoder().encode(value);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [
    ...lines,
    ...urlForms(value),
    ...htmlForms(value),
    hex,
    hex.toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64At(bytes, offset)),
  ];
}

/** The secret as URL writers encode it: with more or fewer characters, a space as `+`, digits in lower case. */
function urlForms(value: string): readonly string[] {
  const usual = encodeURIComponent(value);
  const strict = usual.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  return [usual, strict]
    .flatMap((form) => [form, form.replaceAll("%2F", "/"), form.replaceAll("%20", "+")])
    .flatMap((form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (one) => one.toLowerCase())]);
}

function htmlForms(value: string): readonly string[] {
  const text = value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const quoted = text.replaceAll('"', "&quot;");
  return [text, quoted, quoted.replaceAll("'", "&#39;"), quoted.replaceAll("'", "&#x27;")];
}

/** The secret as JSON writers encode it in a string, and again for JSON inside a JSON string. */
function jsonForms(secret: string): readonly string[] {
  const inside = (text: string): string => JSON.stringify(text).slice(1, -1);
  const ascii = (text: string): string =>
    text.replaceAll(/[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const once = [inside(secret), ascii(inside(secret)), inside(secret).replaceAll("/", "\\/")];
  return [...new Set([...once, ...once.map(inside)])];
}

/** The base64 characters that depend only on the value, with `offset` other bytes before it; standard and URL-safe. */
function base64At(bytes: Uint8Array, offset: number): readonly string[] {
  const padded = "\0".repeat(offset) + Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  const whole = btoa(padded).replace(/=+$/, "");
  // The last character also depends on the byte after the value.
  const isCut = (padded.length * 8) % 6 !== 0;
  const own = whole.slice(Math.ceil((offset * 8) / 6), isCut ? -1 : undefined);
  return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
}

/**
 * Where known secrets are in the text, in order and without overlaps. A file can hold hundreds of secrets with about twenty forms each, so
 * the text is read once: each place is looked up by its first characters.
 */
export function findKnown(
  text: string,
  known: readonly KnownSecret[],
): readonly { readonly start: number; readonly end: number; readonly name: string }[] {
  if (known.length === 0) return [];
  const { isStart, byStart } = indexOf(known);
  const found: { start: number; end: number; readonly name: string }[] = [];
  let last: { start: number; end: number; readonly name: string } | undefined;
  for (let at = 0; at <= text.length - START; at += 1) {
    const start = startAt(text, at);
    if (isStart[start] !== 1) continue;
    const secret = byStart.get(start)?.find((one) => isAt(text, at, one));
    if (secret === undefined) continue;
    const end = at + secret.value.length;
    if (last !== undefined && at < last.end) last.end = Math.max(last.end, end);
    else {
      last = { start: at, end, name: secret.name };
      found.push(last);
    }
  }
  return found;
}

/** No known secret is shorter. */
const START = 4;
const STARTS = 1 << 16;

interface SecretIndex {
  /** 1 where some secret starts with characters of this number. A look here is faster than one in the map. */
  readonly isStart: Uint8Array;
  /** Longest first. */
  readonly byStart: ReadonlyMap<number, readonly KnownSecret[]>;
}

const indexes = new WeakMap<readonly KnownSecret[], SecretIndex>();

function indexOf(known: readonly KnownSecret[]): SecretIndex {
  const made = indexes.get(known);
  if (made !== undefined) return made;
  const sorted = known.filter(({ value }) => value.length >= START).toSorted((a, b) => b.value.length - a.value.length);
  const byStart = Map.groupBy(sorted, ({ value }) => startAt(value, 0));
  const isStart = new Uint8Array(STARTS);
  for (const start of byStart.keys()) isStart[start] = 1;
  const index = { isStart, byStart };
  indexes.set(known, index);
  return index;
}

/** A number below STARTS for the characters there. Different characters may have the same. */
function startAt(text: string, at: number): number {
  const [a, b] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
  const [c, d] = [text.charCodeAt(at + 2), text.charCodeAt(at + 3)];
  return (((a * 31 + b) * 31 + c) * 31 + d) & (STARTS - 1);
}

function isAt(text: string, at: number, { value, isWord = false }: KnownSecret): boolean {
  if (!text.startsWith(value, at)) return false;
  return !isWord || !(/\w/.test(text.charAt(at - 1)) || /\w/.test(text.charAt(at + value.length)));
}
