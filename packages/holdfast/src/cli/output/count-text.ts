/** "1 file", "3 files", "no files". */
export function countText(count: number, one: string, many = `${one}s`): string {
  if (count === 0) return `no ${many}`;
  return `${count} ${count === 1 ? one : many}`;
}
