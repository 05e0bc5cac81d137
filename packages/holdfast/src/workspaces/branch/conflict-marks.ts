/**
 * Does the text hold conflict marks that neither side had of its own? A file about merging may show such lines, and must not be held up
 * for ever.
 */
export function hasMarks(text: string, sides: readonly string[]): boolean {
  const own = new Set(sides.flatMap(marksOf));
  return marksOf(text).some((line) => !own.has(line));
}

function marksOf(text: string): readonly string[] {
  return text.split(/\r?\n/).filter((line) => /^(?:<{7}|>{7}|\|{7})(?: |$)/.test(line));
}
