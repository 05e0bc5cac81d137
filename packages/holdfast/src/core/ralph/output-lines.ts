/** What of an output is looked at: its end, where the summaries are. */
const MOST_CHARACTERS = 1_000_000;
const MOST_LINES = 20_000;
const MOST_LINE = 1_000;

/**
 * The last lines of an output, without colours and carriage returns, long ones cut. Whatever a command prints, what follows works on a bounded
 * number of bounded lines, so that no pattern can be made to take long.
 */
export function outputLines(output: string): readonly string[] {
  return output
    .slice(-MOST_CHARACTERS)
    .split("\n")
    .slice(-MOST_LINES)
    .map((line) => plain(line.slice(0, MOST_LINE)));
}

/** Of what a carriage return overwrote, the last remains: a progress bar leaves one line. */
function plain(line: string): string {
  const bare = line.includes("\u001B") ? line.replace(COLOUR, "") : line;
  const trimmed = bare.endsWith("\r") ? bare.slice(0, -1) : bare;
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}

// eslint-disable-next-line no-control-regex
const COLOUR = /\u001B\[[0-9;?]{0,40}[A-Za-z]/g;
