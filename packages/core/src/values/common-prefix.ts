/** How many entries at the front of two rows are the very same; `from` of them are known to be. */
export function commonPrefix(row: readonly unknown[], other: readonly unknown[], from: number): number {
  const end = Math.min(row.length, other.length);
  let at = from;
  while (at < end && row[at] === other[at]) at += 1;
  return at;
}
