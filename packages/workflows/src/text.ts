// Shortens text of agents and commands for prompts, reports and pull requests.

/** Keeps the end of a long text and states how many characters are left out. */
export function truncateStart(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return `… (${text.length - characters} characters left out)\n${text.slice(-characters).toWellFormed()}`;
}

/** Cuts a text to `most` characters: keeps its beginning and end with an ellipsis between. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const gap = " … ";
  const head = Math.floor((most - gap.length) * 0.4);
  const tail = most - gap.length - head;
  return `${text.slice(0, head).toWellFormed()}${gap}${text.slice(text.length - tail).toWellFormed()}`;
}

/** Returns at most `most` characters of the beginning on one line. */
export function oneLine(text: string, most: number): string {
  // The text is cut first, so that a very long text is not processed as a whole.
  const line = text
    .slice(0, most * 4)
    .split(/\s+/)
    .join(" ")
    .trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`;
}
