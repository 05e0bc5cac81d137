/** What can be typed as an answer, as a shell takes it: an option of several words stands in quotes. */
export function answerWords(options: readonly string[]): string {
  return options.length === 0 ? "ANSWER" : options.map(quoted).join("|");
}

function quoted(option: string): string {
  return /^[\w.,:=@/+-]+$/.test(option) ? option : `"${option.replaceAll(/["$`\\]/g, "\\$&")}"`;
}
