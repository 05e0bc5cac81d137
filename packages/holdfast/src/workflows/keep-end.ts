/** The last part of a long text, saying that something is missing. */
export function keepEnd(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return `… (${text.length - characters} characters left out)\n${text.slice(-characters).toWellFormed()}`;
}
