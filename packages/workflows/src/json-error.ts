// Finds the line of a JSON syntax error, and turns JSON with comments into plain JSON of the same layout.

/**
 * Returns the line and message of the first JSON error, or null for valid JSON. JSON.parse does not always report the
 * line, and its wording differs by version.
 */
export function findJsonError(text: string): { readonly line: number; readonly message: string } | null {
  const message = errorOf(text);
  if (message === null) return null;
  // The longest prefix that lacks only its end stops right before the error.
  let good = 0;
  let bad = text.length + 1;
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (lacksOnlyItsEnd(text.slice(0, middle))) good = middle;
    else bad = middle;
  }
  const culprit = bad > text.length ? text.trimEnd().length : good;
  return { line: text.slice(0, culprit).split("\n").length, message: plain(message) };
}

function errorOf(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return error.message;
  }
}

function lacksOnlyItsEnd(text: string): boolean {
  const message = errorOf(text);
  if (message === null || /unexpected end/i.test(message)) return true;
  return Number(/ at position (\d+)/.exec(message)?.[1]) === text.length;
}

/** Removes the position, which is reported separately, and the excerpt of the file that some messages append. */
function plain(message: string): string {
  return message.replace(/ at position .*$/s, "").replace(/, (?:\.\.\.)?".*$/s, "");
}

/**
 * Blanks comments and trailing commas in JSON. All other characters keep their position, so that line numbers in errors
 * are correct.
 */
export function blankComments(text: string): string {
  const bare = text.replace(TOKEN, (token) => (token.startsWith("/") ? token.replaceAll(/[^\n]/g, " ") : token));
  return bare.replace(TRAILING, (token) => (token.startsWith(",") ? ` ${token.slice(1)}` : token));
}

const STRING = /"(?:[^"\\\n]|\\.)*"?/.source;
const TOKEN = new RegExp(`${STRING}|//[^\\n]*|/\\*[\\s\\S]*?\\*/`, "g");
// Matches only after a value: `[,]` remains an error.
const TRAILING = new RegExp(`${STRING}|(?<=[^\\s,:[{]\\s*),(?=\\s*[}\\]])`, "g");
