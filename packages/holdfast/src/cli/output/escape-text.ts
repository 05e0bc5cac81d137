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

/** A file's name on a line of its own, quoted as git quotes it where it has characters that cannot be shown. */
export function quoteName(path: string): string {
  if (path.startsWith('"') || path.search(UNSAFE) === -1) return path;
  const octal = (character: string): string =>
    Array.from(new TextEncoder().encode(character), (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replace(UNSAFE, octal)}"`;
}

/** For text that is meant to have lines, such as a patch: line feeds and tabs stay, the rest is escaped. */
export function escapeLines(text: string): string {
  return text.replace(UNSAFE_IN_LINES, escapeOne);
}

/**
 * The last filter in front of a stream. Only `\uXXXX` is used, so that a JSON document means the same afterwards. Of escape sequences those pass
 * that carry `seal`, a number that text from outside cannot know: our own colours and cursor movements. The seal is removed.
 */
export function escapeUnsealed(text: string, seal: string): string {
  const [first = "", ...more] = text.split("\x1b[");
  const own = new RegExp(`^([?0-9;]*);${seal}([A-Za-z])`);
  return more.reduce((done, part) => {
    const sequence = own.exec(part);
    if (sequence === null) return done + escapeUnits(`\x1b[${part}`);
    const [whole, parameters = "", final = ""] = sequence;
    return `${done}\x1b[${parameters}${final}${escapeUnits(part.slice(whole.length))}`;
  }, escapeUnits(first));
}

/** Content that is printed for another program: all bytes stay, only the seals of our own sequences are removed. */
export function removeSeals(text: string, seal: string): string {
  return text.replaceAll(new RegExp(`(\\u001b\\[[?0-9;]*);${seal}([A-Za-z])`, "g"), "$1$2");
}

function escapeUnits(text: string): string {
  return text.replace(UNSAFE_IN_LINES, (character) =>
    // UTF-16 units: JSON knows no longer escape.
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
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
