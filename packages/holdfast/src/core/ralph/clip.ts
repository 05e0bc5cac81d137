/** At most `most` characters: the beginning and the end of a longer text, with a word on what lies between. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const gap = " … ";
  const head = Math.floor((most - gap.length) * 0.4);
  const tail = most - gap.length - head;
  return `${text.slice(0, head).toWellFormed()}${gap}${text.slice(text.length - tail).toWellFormed()}`;
}

/** On one line, at most `most` characters from the beginning. */
export function oneLine(text: string, most: number): string {
  // Cut first: a hostile text is not walked to its end for a line of it.
  const line = text
    .slice(0, most * 4)
    .split(/\s+/)
    .join(" ")
    .trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`;
}
