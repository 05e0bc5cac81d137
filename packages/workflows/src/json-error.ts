/** Where and why a text is not JSON; null when it is. JSON.parse does not always tell the line, and says it differently by version. */
export function findJsonError(text: string): { readonly line: number; readonly message: string } | null {
  const message = errorOf(text);
  if (message === null) return null;
  // The longest beginning that lacks only its end stops right before the culprit.
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

/** Without the place, which is told apart, and without the piece of the file that follows some messages. */
function plain(message: string): string {
  return message.replace(/ at position .*$/s, "").replace(/, (?:\.\.\.)?".*$/s, "");
}

/** JSON with comments and trailing commas as plain JSON, every other character at its old place, so that lines in errors are true. */
export function blankComments(text: string): string {
  const bare = text.replace(TOKEN, (token) => (token.startsWith("/") ? token.replaceAll(/[^\n]/g, " ") : token));
  return bare.replace(TRAILING, (token) => (token.startsWith(",") ? ` ${token.slice(1)}` : token));
}

const STRING = /"(?:[^"\\\n]|\\.)*"?/.source;
const TOKEN = new RegExp(`${STRING}|//[^\\n]*|/\\*[\\s\\S]*?\\*/`, "g");
// Only after a value: `[,]` stays the error that it is.
const TRAILING = new RegExp(`${STRING}|(?<=[^\\s,:[{]\\s*),(?=\\s*[}\\]])`, "g");
