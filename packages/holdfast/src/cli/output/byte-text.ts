/** "20 MB": decimal units, as disks and the config file count them, with two digits where they help. */
export function byteText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  let value = bytes;
  for (const unit of UNITS) {
    value /= 1000;
    if (value < 999.5 || unit === LAST) return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${unit}`;
  }
  return `${bytes} B`;
}

const LAST = "PB";
const UNITS = ["kB", "MB", "GB", "TB", LAST];
