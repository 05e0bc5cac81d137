/**
 * Names, reasons and values come from files, issues and models. Printed raw they could move the cursor, recolour the
 * screen, reverse the reading order or hide themselves; escaped they can only be read.
 */
export function escapeText(text: string): string {
  return text.replace(UNSAFE, escapeOne);
}

/** Words of others inside a line of ours, such as what git or a hook said: their line ends become semicolons. */
export function escapeWords(text: string): string {
  return escapeText(text.trim().replaceAll(/[;,]?\s*\n\s*/g, "; "));
}

/** For text that is meant to have lines, such as a patch: line feeds and tabs stay, the rest is escaped. */
export function escapeLines(text: string): string {
  return text.replace(UNSAFE_IN_LINES, escapeOne);
}

// C0, DEL and C1; bidirectional controls; separators; invisible and tag characters; halves of surrogate pairs.
const CONTROLS =
  "\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}\\ud800-\\udfff";
const UNSAFE = new RegExp(`[\\u0000-\\u001f${CONTROLS}]`, "gu");
const UNSAFE_IN_LINES = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f${CONTROLS}]`, "gu");

function escapeOne(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\u{${code.toString(16)}}`;
}

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
