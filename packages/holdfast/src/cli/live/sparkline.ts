/**
 * Scores of 0 to 100 as one character each, on a fixed scale: the same score looks the same in every run. The newest
 * are kept when there are too many.
 */
export function sparkline(scores: readonly number[], width = Number.POSITIVE_INFINITY): string {
  const shown = scores.length > width ? scores.slice(scores.length - Math.max(0, width)) : scores;
  return shown.map((score) => BARS[barOf(score)]).join("");
}

const BARS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

function barOf(score: number): number {
  const within = Math.min(100, Math.max(0, Number.isNaN(score) ? 0 : score));
  return Math.min(BARS.length - 1, Math.floor((within / 100) * BARS.length));
}
