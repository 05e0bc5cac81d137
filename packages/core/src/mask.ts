// Masks secrets in text before Holdfast stores or sends it, and neutralizes mentions and closing keywords before it is published.

import {
  type KnownSecret,
  LONGEST_WORD,
  MASK,
  SHORTEST,
  findKnown,
  learnedSecrets,
  secretValues,
} from "./known-secrets.ts";

/**
 * Finds and masks secrets in text. Everything that Holdfast writes or sends as text passes here: journal, logs,
 * prompts, copies of transcripts, commit messages, requests to a forge, the terminal.
 *
 * - The same text gives the same result, and masking is idempotent.
 * - In JSON, only strings are changed. A number or a status word that equals a secret is kept, so that the document
 *   remains valid and true.
 * - Ids, digests and commit ids are not secrets.
 * - Time is linear in the length of the text: no pattern can backtrack over an unbounded range.
 */
export function maskSecrets(text: string, known: readonly KnownSecret[] = []): string {
  let masked = text;
  // One match may have hidden the start of another. Repeat until nothing is found, so that masking is idempotent.
  for (let pass = 0; pass < MOST_PASSES; pass += 1) {
    const found = findSecrets(masked, known);
    if (found.length === 0) break;
    const before = masked;
    masked = replaced(masked, insideText(masked, found));
    if (masked === before) break;
  }
  return masked;
}

function replaced(text: string, found: readonly FoundSecret[]): string {
  let masked = "";
  let at = 0;
  for (const { start, end } of found) {
    masked += text.slice(at, start) + MASK;
    at = end;
  }
  return masked + text.slice(at);
}

/** The parts of the matches that may be masked. In JSON (the whole text, or one line), only what is inside a string. */
function insideText(text: string, found: readonly FoundSecret[]): readonly FoundSecret[] {
  const whole = jsonStrings(text);
  if (whole !== null) return clip(found, whole, 0);
  const inside: FoundSecret[] = [];
  let line = { start: 0, end: -1, strings: [] as readonly Span[] | null };
  for (const one of found) {
    if (one.start > line.end) {
      const start = text.lastIndexOf("\n", one.start - 1) + 1;
      const next = text.indexOf("\n", one.start);
      const end = next === -1 ? text.length : next;
      line = { start, end, strings: jsonStrings(text.slice(start, end)) };
    }
    // A match beyond the end of the line is not part of a JSON line.
    if (line.strings === null || one.end > line.end) inside.push(one);
    else inside.push(...clip([one], line.strings, line.start));
  }
  return inside;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Contents of the strings, in order, without status words. null: the text is not a JSON object or array. */
function jsonStrings(text: string): readonly Span[] | null {
  if (!/^\s{0,20}[[{]/.test(text) || !isJson(text)) return null;
  const spans: Span[] = [];
  let key = "";
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    const start = at + 1;
    for (at = start; text.charAt(at) !== '"'; at += 1) if (text.charAt(at) === "\\") at += 1;
    const end = at;
    at += 1;
    while (/\s/.test(text.charAt(at))) at += 1;
    const isKey = text.charAt(at) === ":";
    const word = text.slice(start, end);
    if (isKey ? !isPlainKey(word) : !isStateWord(key, word)) spans.push({ start, end });
    key = isKey ? word : "";
  }
  return spans;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Restricts matches to the spans. Both lists are sorted. */
function clip(found: readonly FoundSecret[], spans: readonly Span[], offset: number): readonly FoundSecret[] {
  const clipped: FoundSecret[] = [];
  let at = 0;
  for (const one of found) {
    while (at > 0 && (spans[at - 1]?.end ?? 0) + offset > one.start) at -= 1;
    for (; at < spans.length; at += 1) {
      const span = spans[at];
      if (span === undefined || span.start + offset >= one.end) break;
      const start = Math.max(one.start, span.start + offset);
      const end = Math.min(one.end, span.end + offset);
      if (start < end) clipped.push({ ...one, start, end });
    }
  }
  return clipped;
}

/** Holdfast and agents write fixed words under these keys. If one were masked, a reader would see another status. */
const STATE_KEYS = new Set(
  "kind type subtype status state outcome on event stage role cause code method workflow trigger source next answer verdict phase".split(
    " ",
  ),
);

/** A field name of letters only. If it were masked, a reader would not find the field. */
function isPlainKey(key: string): boolean {
  return key.length < LONGEST_WORD && /^[A-Za-z]*$/.test(key);
}

function isStateWord(key: string, value: string): boolean {
  return STATE_KEYS.has(key) && /^[a-z]+(?:[_.-][a-z]+){0,8}$/i.test(value) && value.length <= LONGEST_WORD;
}

/** Matches in order, without overlaps. */
export function findSecrets(text: string, known: readonly KnownSecret[] = []): readonly FoundSecret[] {
  const found: FoundSecret[] = [];
  for (const { start, end, name } of findKnown(text, known))
    found.push({ start, end, kind: `value of ${name}`, isSure: true });
  if (MAYBE.test(text)) {
    findPrivateKeys(text, found);
    findAwsKeys(text, found);
    findWebTokens(text, found);
    for (const pattern of PATTERNS) findPattern(text, pattern, found);
  }
  return found.length < 2 ? found : merged(found);
}

export interface FoundSecret {
  readonly start: number;
  readonly end: number;
  /** Description for messages: "GitHub token", "value of DEPLOY_TOKEN". */
  readonly kind: string;
  /** True when the format alone proves a secret. An assignment to a word such as `password` may be an example. */
  readonly isSure: boolean;
}

/**
 * Masks strings inside a value and keeps its shape. Without a secret it returns the same object. The value of a
 * password key is always masked. `clean` holds frozen objects without a secret, which are not checked again.
 */
export function maskValue<T>(value: T, mask: (text: string) => string, clean = new WeakSet<object>()): T {
  // The shape is the same, because only strings are replaced, by strings.
  return maskAny(value, mask, clean) as T;
}

/** Masks text that arrives line by line, including private keys and AWS key pairs that span several lines. */
export function createLineMask(mask: (text: string) => string): (line: string) => string {
  let keyLines = 0;
  let awsLines = 0;
  return (line) => {
    if (keyLines > 0) {
      const end = END_KEY.exec(line);
      keyLines = end === null && KEY_LINE.test(line) ? keyLines - 1 : 0;
      if (end !== null) return MASK + mask(line.slice(end.index + end[0].length));
      if (keyLines > 0) return MASK;
    }
    const isNear = awsLines > 0;
    awsLines = AWS_ID.test(line) ? NEAR_LINES : Math.max(0, awsLines - 1);
    const begin = [...line.matchAll(BEGIN_KEY)].at(-1);
    // A key block that ends on the same line is masked as a whole. Otherwise it continues on the next line.
    if (begin !== undefined && !END_KEY.test(line.slice(begin.index + begin[0].length))) keyLines = KEY_LINES;
    return mask(isNear ? line.replaceAll(AWS_SECRET, hideAwsSecret) : line);
  };
}

/** Bounds the loop. Two passes are usual. */
const MOST_PASSES = 20;

function maskAny(value: unknown, mask: (text: string) => string, clean: WeakSet<object>): unknown {
  if (typeof value === "string") return mask(value);
  if (typeof value !== "object" || value === null || clean.has(value)) return value;
  if (Array.isArray(value)) {
    const items = value.map((item) => maskAny(item, mask, clean));
    if (!items.every((item, index) => item === value[index])) return items;
    if (Object.isFrozen(value)) clean.add(value);
    return value;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  let isSame = true;
  const entries = Object.entries(value).map(([key, item]: [string, unknown]) => {
    const isPasswordHere = typeof item === "string" && PASSWORD_KEY.test(key) && isPassword(item);
    const isState = typeof item === "string" && isStateWord(key, item);
    const masked = isPasswordHere ? MASK : isState ? item : maskAny(item, mask, clean);
    const name = isPlainKey(key) ? key : mask(key);
    if (masked !== item || name !== key) isSame = false;
    return [name, masked] as const;
  });
  if (!isSame) return Object.fromEntries(entries);
  if (Object.isFrozen(value)) clean.add(value);
  return value;
}

const PASSWORD_KEY =
  /^(?:.*[_-])?(?:password|passwd|passphrase|secret|client_?secret|api_?key|private_?key|secret_?access_?key)$/i;

function isPassword(text: string): boolean {
  return text.length >= SHORTEST && !/\s/.test(text) && text !== MASK;
}

/** Finds whole key blocks, and the body of a block without an end. */
function findPrivateKeys(text: string, found: FoundSecret[]): void {
  let end = -2;
  for (const { 0: begin, index } of text.matchAll(BEGIN_KEY)) {
    const from = index + begin.length;
    // Search only once: if there is no end here, there is none later.
    if (end !== -1 && end < from) end = text.indexOf("-----END ", from);
    const close = end === -1 || end - from > LONGEST_KEY ? null : matchAt(END_KEY_HERE, text, end);
    KEY_BODY.lastIndex = from;
    const body = KEY_BODY.exec(text)?.[0].length ?? 0;
    found.push({ start: index, end: close === null ? from + body : end + close, kind: "private key", isSure: true });
  }
}

function matchAt(pattern: RegExp, text: string, at: number): number | null {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? null;
}

const BEGIN_KEY = /-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----/g;
const END_KEY = /-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----/;
const END_KEY_HERE = new RegExp(END_KEY.source, "y");
const LONGEST_KEY = 20_000;
const KEY_LINES = 400;
/** Separators and key characters are disjoint sets, so there is only one way to match. */
const KEY_BODY = /(?:(?:\\[nrt]|[\s"',|>#*]){0,40}[A-Za-z0-9+/=]{16,200}){0,400}/y;
/** A key line as shown in a diff, in a listing with line numbers, or in a string in code. */
const KEY_LINE =
  /^(?:\s{0,20}\d{1,6}[\s:|→]{1,5})?[\s+"'`|>#*-]{0,20}(?:[A-Za-z0-9+/=]{1,200}|(?:Proc-Type|DEK-Info|Comment|Version):.{0,200})?(?:\\n)?[\s"'`,;+\\]{0,10}$/;

/** The secret half of an AWS key pair has no recognizable prefix, so it is searched for near the key id. */
function findAwsKeys(text: string, found: FoundSecret[]): void {
  let last = 0;
  for (const { index } of text.matchAll(AWS_IDS)) {
    const from = Math.max(last, index - NEAR);
    last = index + NEAR;
    for (const match of text.slice(from, last).matchAll(AWS_SECRET))
      if (hideAwsSecret(match[0]) === MASK)
        found.push({
          start: from + match.index,
          end: from + match.index + match[0].length,
          kind: "AWS secret key",
          isSure: true,
        });
  }
}

const AWS_IDS = /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g;
const AWS_ID = /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/;
const AWS_SECRET = /(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])/g;
const NEAR = 300;
const NEAR_LINES = 4;

/** A commit id also has 40 characters. */
function hideAwsSecret(text: string): string {
  return /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text) ? MASK : text;
}

/** Finds JSON web tokens from their middle, because a text may contain many possible starts, each with a long header. */
function findWebTokens(text: string, found: FoundSecret[]): void {
  let last = 0;
  for (const match of text.matchAll(WEB_TOKEN_REST)) {
    let start = match.index;
    for (let at = match.index - 1; at >= last && match.index - at <= LONGEST_HEADER; at -= 1) {
      if (!/[A-Za-z0-9_-]/.test(text.charAt(at))) break;
      if (text.startsWith("eyJ", at) && match.index - at >= SHORTEST_HEADER && !/\w/.test(text.charAt(at - 1)))
        start = at;
    }
    last = match.index + match[0].length;
    if (start < match.index) found.push({ start, end: last, kind: "JSON web token", isSure: true });
  }
}

const WEB_TOKEN_REST = /\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{16,2000}/g;
const SHORTEST_HEADER = 11;
const LONGEST_HEADER = 403;

interface Pattern {
  readonly kind: string;
  /** The first group, if there is one, is not masked. */
  readonly pattern: RegExp;
  readonly isSure: boolean;
  readonly isSecret?: (value: string) => boolean;
}

function findPattern(text: string, { kind, pattern, isSure, isSecret }: Pattern, found: FoundSecret[]): void {
  for (const match of text.matchAll(pattern)) {
    const start = match.index + (match[1]?.length ?? 0);
    const end = match.index + match[0].length;
    if (isSecret?.(text.slice(start, end)) !== false) found.push({ start, end, kind, isSure });
  }
}

function merged(found: readonly FoundSecret[]): readonly FoundSecret[] {
  const all: FoundSecret[] = [];
  for (const one of found.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = all.at(-1);
    if (last === undefined || one.start >= last.end) all.push(one);
    else all[all.length - 1] = { ...last, end: Math.max(last.end, one.end), isSure: last.isSure || one.isSure };
  }
  return all;
}

const sure = (kind: string, pattern: RegExp): Pattern => ({ kind, pattern, isSure: true });

/** Each pattern is bounded, so that matching a hostile line is linear in its length. */
const PATTERNS: readonly Pattern[] = [
  sure("API key", /\b(?:sk|pk|rk)-(?:ant-|proj-|or-|live-|svcacct-|lf-)?[A-Za-z0-9_-]{20,400}/g),
  sure("Stripe key", /\b(?:[rsp]k_(?:live|test)_[A-Za-z0-9]{10,200}|whsec_[A-Za-z0-9+/=]{20,200})/g),
  sure("GitHub token", /\b(?:gh[pousr]_[A-Za-z0-9]{20,300}|github_pat_[A-Za-z0-9_]{20,300})/g),
  sure("GitLab token", /\bgl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_.-]{16,200}/g),
  sure("AWS access key id", AWS_IDS),
  sure("Google key", /\b(?:AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,400}|GOCSPX-[A-Za-z0-9_-]{20,60})/g),
  sure("Azure key", /(\b(?:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{40,100}={0,2}/g),
  sure("Slack token", /\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,300}|xapp-\d-[A-Za-z0-9-]{20,200})/g),
  sure(
    "webhook",
    /\bhttps:\/\/(?:hooks\.slack\.com\/services|discord(?:app)?\.com\/api\/webhooks)\/[A-Za-z0-9/_-]{20,200}/g,
  ),
  sure("Telegram token", /\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b/g),
  sure("Hugging Face token", /\bhf_[A-Za-z0-9]{30,60}/g),
  sure(
    "model provider key",
    /\b(?:gsk_[A-Za-z0-9]{40,80}|xai-[A-Za-z0-9]{40,120}|pplx-[A-Za-z0-9]{40,80}|r8_[A-Za-z0-9]{30,60}|tvly-[A-Za-z0-9-]{20,60})/g,
  ),
  sure("npm token", /\bnpm_[A-Za-z0-9]{36}/g),
  sure("PyPI token", /\bpypi-[A-Za-z0-9_-]{50,400}/g),
  sure("registry token", /\b(?:rubygems_[0-9a-f]{48}|cio[A-Za-z0-9]{32}\b|dckr_pat_[A-Za-z0-9_-]{20,60})/g),
  sure("SendGrid key", /\bSG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{30,60}/g),
  sure("Mailgun key", /\bkey-[0-9a-f]{32}\b/g),
  sure("Twilio key", /\bSK[0-9a-f]{32}\b/g),
  sure("DigitalOcean token", /\bdo[opr]_v1_[0-9a-f]{64}/g),
  sure("Shopify token", /\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}/g),
  sure("Databricks token", /\bdapi[0-9a-f]{32}\b/g),
  sure("Vault token", /\b(?:hv[sbr]\.[A-Za-z0-9_-]{24,300}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,80})/g),
  sure("Atlassian token", /\bATATT3[A-Za-z0-9_=-]{50,300}/g),
  sure(
    "service token",
    /\b(?:lin_api_[A-Za-z0-9]{32,60}|ntn_[A-Za-z0-9]{40,60}|figd_[A-Za-z0-9_-]{30,60}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,60}|glsa_[A-Za-z0-9_]{32,60}|sntrys_[A-Za-z0-9_=+/]{40,300}|sbp_[0-9a-f]{40}|PMAK-[0-9a-f-]{50,70}|pscale_(?:tkn|pw)_[A-Za-z0-9_.-]{30,60})/g,
  ),
  sure("age key", /\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b/g),
  {
    kind: "authorization header",
    pattern: /(\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/-]{16,2000}={0,2}/gi,
    isSure: false,
    isSecret: (value) => /\d/.test(value) || /[A-Z]/.test(value),
  },
  {
    kind: "password in a URL",
    pattern: /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@"'\\]{0,100}:)[^\s/@"'*\\]{3,300}(?=@)/gi,
    isSure: false,
  },
  {
    kind: "token in a URL",
    pattern: /(\bhttps?:\/\/)[A-Za-z0-9_~.-]{20,300}(?=@)/gi,
    isSure: false,
  },
  {
    kind: "assigned secret",
    pattern:
      /((?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|token)(?:\\?["'])?\s{0,3}[=:]\s{0,3}(?:\\?["'])?)[A-Za-z0-9._~+/-]{16,400}={0,2}/gi,
    isSure: false,
    isSecret: (value) => !isReference(value),
  },
  {
    kind: "assigned password",
    pattern: /(passw(?:or)?d(?:\\?["'])?\s{0,3}[=:]\s{0,3}(?:\\?["'])?)[^\s"'`,;\\*]{8,200}/gi,
    isSure: false,
    isSecret: (value) => /\d/.test(value) && /[A-Za-z]/.test(value) && !isReference(value) && !/[(){}<>$]/.test(value),
  },
];

/** `process.env.TOKEN`, `settings.apiKey` and bare names are code, not secrets. */
function isReference(value: string): boolean {
  return /^[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+$/.test(value) || /^[A-Za-z]+(?:[_-][A-Za-z]+)*$/.test(value);
}

/** Every pattern requires one of these substrings. Most texts have none, and are scanned only once. */
const MAYBE =
  /-----BEGIN|[rsp]k[-_]|whsec_|gh[pousr]_|github_pat_|gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas)-|AKIA|ASIA|AIza|ya29\.|GOCSPX-|AccountKey=|SharedAccessKey=|xox|xapp-|:\/\/|:AA|hf_|gsk_|xai-|pplx-|r8_|tvly-|npm_|pypi-|rubygems_|cio|dckr_pat_|SG\.|key-|SK[0-9a-f]|do[opr]_v1_|shp|dapi|hv[sbr]\.|atlasv1|ATATT3|lin_api_|ntn_|figd_|dp\.|glsa_|sntrys_|sbp_|PMAK-|pscale_|AGE-SECRET|eyJ|bearer|basic|key|secret|passw|token/i;

/** Masks secrets of this process: by format, and by the values of its environment. */
export interface Masking {
  mask(text: string): string;
  find(text: string): readonly FoundSecret[];
}

/** Reads the environment once, now. Secrets that the process learns later are masked too. */
export function createMasking(): Masking {
  const environment = secretValues(process.env);
  let from: readonly KnownSecret[] = [];
  let known = environment;
  const current = (): readonly KnownSecret[] => {
    const learned = learnedSecrets();
    if (from !== learned) {
      from = learned;
      known = [...environment, ...learned];
    }
    return known;
  };
  return { mask: (text) => maskSecrets(text, current()), find: (text) => findSecrets(text, current()) };
}

/**
 * Removes the effect of mentions and of closing keywords, except for issue `own`. Idempotent. `plain`: the forge does
 * not render the text, so that it has no code marks.
 */
export function removeMentions(
  text: string,
  params: { readonly own: number | null; readonly kind: "markdown" | "plain" },
): string {
  const closed = withoutClosing(text, params.own);
  if (params.kind === "plain") return withoutMentions(closed);
  // A mention in code has no effect, and code must not change.
  return closed
    .split(CODE)
    .map((piece, index) => (index % 2 === 1 ? piece : withoutMentions(piece)))
    .join("");
}

/**
 * True when a commit message closes another issue or notifies a group. Other mentions do not count: `@types/node` and
 * `@param` are code, and asking about each would teach users to answer without reading.
 */
export function hasOutsideEffect(message: string, own: number | null): boolean {
  return (
    withoutClosing(message, own) !== message ||
    /(?<![A-Za-z0-9])@(?:everyone|all|here|channel)(?![\w/-])/i.test(message)
  );
}

/** A zero-width space: readers see the same text, and forges see no reference. */
const BREAK = "\u200B";

/** One reference to an issue, in this or another repository. */
const ONE = String.raw`(?:[\w.-]{1,100}(?:\/[\w.-]{1,100}){1,9})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9}`;
/** Closing keywords of GitHub and GitLab, with all references after one. */
const CLOSING = new RegExp(
  String.raw`\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b\s{0,20}:?\s{1,200}(?:issues?\s{1,20})?(?:${ONE})(?:\s{0,20}(?:,\s{0,20})?(?:and\s{1,20})?(?:${ONE}))*`,
  "gi",
);
const REFERENCE = new RegExp(ONE, "gi");
/** An unclosed fence counts as text, because forges end it at different places. */
const CODE = /(```[^]*?```|`[^`\n]{1,400}`)/;

function withoutClosing(text: string, own: number | null): string {
  return text.replaceAll(CLOSING, (all: string) => all.replaceAll(REFERENCE, (one) => withoutEffect(one, own)));
}

function withoutEffect(reference: string, own: number | null): string {
  const short = /^#[ \t]?(\d+)$/.exec(reference);
  if (short !== null && Number(short[1]) === own) return reference;
  return reference.replace(/(#[ \t]?|GH-|\/)(?=\d+$)/i, `$1${BREAK}`);
}

/** In an email address, a letter or digit precedes the @ sign, so it is not a mention. */
function withoutMentions(text: string): string {
  return text.replaceAll(/(?<![A-Za-z0-9])@(?=[A-Za-z0-9])/g, `@${BREAK}`);
}
