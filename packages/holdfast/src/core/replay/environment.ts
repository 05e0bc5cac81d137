import type { Digest, Hasher } from "../json.ts";
import { MASK, isSecretName, maskSecrets, secretValues } from "../mask.ts";
import { canonicalJson } from "../values/index.ts";

export interface Environment {
  readonly hash: Digest;
  readonly values: Readonly<Record<string, string>>;
}

/**
 * What of an environment an outcome may hang on, secrets masked, and its hash. Left out is what tells one terminal, session or login from another: with it
 * no two environments would be the same. A secret counts by its being there: its value is nowhere, not even in the hash.
 */
export function describeEnvironment(
  variables: Readonly<Record<string, string | undefined>>,
  hasher: Hasher,
): Environment {
  const secrets = secretValues(variables);
  const values: Record<string, string> = {};
  for (const name of Object.keys(variables).toSorted()) {
    const value = variables[name];
    if (value === undefined || isPassing(name)) continue;
    values[name] = isSecretName(name) ? MASK : maskSecrets(value, secrets).toWellFormed();
  }
  return { hash: hasher(canonicalJson(values)), values };
}

/** Names that differ, in order; those of secrets only where one side lacks them. */
export function changedVariables(
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => before[name] !== now[name]).toSorted();
}

function isPassing(name: string): boolean {
  return PASSING.has(name.toUpperCase()) || PASSING_KINDS.test(name);
}

const PASSING: ReadonlySet<string> = new Set([
  "_",
  "COLORFGBG",
  "COLORTERM",
  "COLUMNS",
  "DISPLAY",
  "INIT_CWD",
  "INVOCATION_ID",
  "JOURNAL_STREAM",
  "LINES",
  "LOGNAME",
  "MAIL",
  "OLDPWD",
  "PPID",
  "PWD",
  "SHLVL",
  "STY",
  "SYSTEMD_EXEC_PID",
  "TERM",
  "WAYLAND_DISPLAY",
  "WINDOWID",
  "XAUTHORITY",
]);
const PASSING_KINDS =
  /^(?:GIT|HOLDFAST|DBUS|GNOME|GPG|ITERM|KITTY|KONSOLE|SSH|TERM|TMUX|VITEST|VSCODE|VTE|WEZTERM|XDG|npm)_/i;
