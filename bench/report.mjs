// Statistics and the lines that the benchmarks print.
import { loadavg } from "node:os";

export function quantile(values, q) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

/** "median (10th to 90th percentile)". */
export function spread(values) {
  const [low, middle, high] = [0.1, 0.5, 0.9].map((q) => format(quantile(values, q)));
  return `${middle} (${low} to ${high})`;
}

export function printTarget({ what, value, unit, atMost, atLeast }) {
  const met = atMost === undefined ? value >= atLeast : value <= atMost;
  const target = atMost === undefined ? `≥ ${format(atLeast)}` : `≤ ${format(atMost)}`;
  print(`${what.padEnd(62)} ${`${format(value)} ${unit}`.padStart(14)}  target ${target}: ${met ? "met" : "missed"}`);
}

/** A busy machine changes absolute times, and the ratios less. */
export function printLoad() {
  const [minute] = loadavg();
  print(`Node ${process.version}, SQLite ${process.versions.sqlite}, load average ${minute.toFixed(1)}`);
}

export function print(line) {
  process.stdout.write(`${line}\n`);
}

function format(value) {
  return value >= 1000 ? Math.round(value).toLocaleString("en") : value >= 100 ? value.toFixed(0) : value.toFixed(2);
}
