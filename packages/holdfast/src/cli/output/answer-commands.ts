/**
 * The commands that answer a question, one a line, so that each can be pasted: `push|stop` on one line would be a pipe, and a shell would
 * give the first answer.
 */
export function answerCommands(command: string, options: readonly string[]): string {
  const [first = "ANSWER", ...others] = options.map(quoted);
  return [`Answer with: ${command} ${first}`, ...others.map((option) => `         or: ${command} ${option}`)].join(
    "\n",
  );
}

function quoted(option: string): string {
  return /^[\w.,:=@/+-]+$/.test(option) ? option : `"${option.replaceAll(/["$`\\]/g, "\\$&")}"`;
}
