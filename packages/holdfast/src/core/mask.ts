/**
 * Hides what looks like a secret in what an agent said, before it is written anywhere. The same text gives the same result, masking twice is
 * masking once, and a line of JSON stays one. `values`: secrets that are known, whatever they look like.
 */
export function maskSecrets(text: string, values: readonly string[] = []): string {
  let masked = text;
  for (const value of values) masked = masked.replaceAll(value, MASK);
  for (const pattern of PATTERNS)
    masked = masked.replace(pattern, (_all, kept: unknown) => (typeof kept === "string" ? kept : "") + MASK);
  return masked;
}

/** Values of variables whose name says that they are secret, as they are and as they stand in JSON and in a URL; longest first. */
export function secretValues(environment: Readonly<Record<string, string | undefined>>): readonly string[] {
  const found = new Set<string>();
  for (const [name, value = ""] of Object.entries(environment)) {
    if (!SECRET_NAME.test(name) || value.length < SHORTEST || value === MASK) continue;
    for (const form of [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())])
      found.add(form);
  }
  return [...found].toSorted((a, b) => b.length - a.length);
}

export function isSecretName(variable: string): boolean {
  return SECRET_NAME.test(variable);
}

export const MASK = "***";
/** A shorter one would blank out innocent words. */
const SHORTEST = 8;
const SECRET_NAME =
  /(?:^|_)(?:(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:_|$)/i;

/** The first group, where there is one, stays. Each is bounded, so that a hostile line costs no more than its length. */
const PATTERNS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----[\s\S]{1,20000}?-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----/g,
  /\bsk-(?:ant-|proj-|or-|live-)?[A-Za-z0-9_-]{20,400}/g,
  /\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,200}/g,
  /\bgh[pousr]_[A-Za-z0-9]{20,300}/g,
  /\bgithub_pat_[A-Za-z0-9_]{20,300}/g,
  /\bgl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_-]{16,200}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g,
  /\bAIza[0-9A-Za-z_-]{35}/g,
  /\bya29\.[0-9A-Za-z_-]{20,400}/g,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,300}/g,
  /\bhf_[A-Za-z0-9]{30,60}/g,
  /\bnpm_[A-Za-z0-9]{36}/g,
  /\bpypi-[A-Za-z0-9_-]{50,400}/g,
  /\bSG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{30,60}/g,
  /\bdop_v1_[0-9a-f]{64}/g,
  /\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{16,2000}/g,
  /(\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/-]{16,2000}={0,2}/gi,
  /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@"']{1,100}:)[^\s/@"'*]{3,300}(?=@)/gi,
  /(\b[A-Z0-9_.-]{0,60}(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|token)["']?\s{0,3}[=:]\s{0,3}["']?)[A-Za-z0-9._~+/-]{16,400}={0,2}/gi,
];
