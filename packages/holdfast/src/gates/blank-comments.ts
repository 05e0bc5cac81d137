/** JSON with comments and trailing commas as plain JSON, every other character at its old place, so that lines in errors are true. */
export function blankComments(text: string): string {
  const bare = text.replace(TOKEN, (token) => (token.startsWith("/") ? token.replaceAll(/[^\n]/g, " ") : token));
  return bare.replace(TRAILING, (token) => (token.startsWith(",") ? ` ${token.slice(1)}` : token));
}

const STRING = /"(?:[^"\\\n]|\\.)*"?/.source;
const TOKEN = new RegExp(`${STRING}|//[^\\n]*|/\\*[\\s\\S]*?\\*/`, "g");
// Only after a value: `[,]` stays the error that it is.
const TRAILING = new RegExp(`${STRING}|(?<=[^\\s,:[{]\\s*),(?=\\s*[}\\]])`, "g");
