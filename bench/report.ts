/** One line a comparison: p50 of both, the ratio, and what was aimed at. */
export function printRatio(line: {
  readonly what: string;
  readonly ours: number;
  readonly peer: number;
  readonly unit: string;
  readonly atMost?: number;
  readonly atLeast?: number;
}): void {
  const ratio = line.ours / line.peer;
  const met =
    (line.atMost === undefined || ratio <= line.atMost) && (line.atLeast === undefined || ratio >= line.atLeast);
  const aim = line.atMost !== undefined ? `≤ ${line.atMost}×` : line.atLeast !== undefined ? `≥ ${line.atLeast}×` : "";
  const verdict = aim === "" ? "" : met ? "met" : "NOT MET";
  const figures = `${format(line.ours)} / ${format(line.peer)} ${line.unit}`;
  process.stdout.write(
    `${line.what.padEnd(58)} ${ratio.toFixed(2).padStart(7)}×  ${figures.padEnd(26)} ${aim.padEnd(8)}${verdict}\n`,
  );
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

function format(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}
