/** Columns that a terminal gives to this text. Expects escaped text: control characters have no width of their own. */
export function displayWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const cluster of clusters(text)) width += clusterWidth(cluster);
  return width;
}

/** At most `width` columns; what was cut is shown by an ellipsis (or another sign), and no character is cut in half. */
export function truncate(text: string, width: number, sign = "…"): string {
  if (displayWidth(text) <= width) return text;
  const room = width - sign.length;
  if (room < 0) return "";
  let kept = "";
  let used = 0;
  for (const cluster of clusters(text)) {
    const next = used + clusterWidth(cluster);
    if (next > room) break;
    kept += cluster;
    used = next;
  }
  return `${kept}${sign}`;
}

/** As `truncate`, but the end stays: ids that begin alike are told apart by it. */
export function truncateMiddle(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  const room = Math.min(ENDING, Math.floor(width / 2));
  let end = "";
  for (const cluster of [...clusters(text)].toReversed()) {
    if (displayWidth(cluster + end) > room) break;
    end = cluster + end;
  }
  return truncate(text, width - displayWidth(end)) + end;
}

/** The eight digits of a loop's name, or the number of a checkpoint with what stands before it. */
const ENDING = 8;

export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - displayWidth(text)));
}

export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - displayWidth(text))) + text;
}

const PLAIN = /^[ -~]*$/;

/** Made at first need: most text is plain, and compiling these costs more than Node's own start. */
interface Ruler {
  readonly segmenter: Intl.Segmenter;
  readonly zero: RegExp;
  readonly wide: RegExp;
}
let ruler: Ruler | undefined;

function makeRuler(): Ruler {
  return {
    segmenter: new Intl.Segmenter("en", { granularity: "grapheme" }),
    zero: new RegExp("^[\\p{Mark}\\p{Default_Ignorable_Code_Point}]+$", "u"),
    // East Asian Wide and Fullwidth, as blocks (unassigned points inside them do not matter), and emoji.
    wide: new RegExp(`^[${WIDE}\\p{Emoji_Presentation}]|\\ufe0f`, "u"),
  };
}

const WIDE =
  "\\u1100-\\u115f\\u2329\\u232a\\u2e80-\\u303e\\u3041-\\ua4cf\\ua960-\\ua97f\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe10-\\ufe19" +
  "\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6\\u{16fe0}-\\u{18cff}\\u{1aff0}-\\u{1b2ff}\\u{1f200}-\\u{1f265}\\u{20000}-\\u{3fffd}";

function* clusters(text: string): Iterable<string> {
  ruler ??= makeRuler();
  for (const { segment } of ruler.segmenter.segment(text)) yield segment;
}

function clusterWidth(cluster: string): number {
  ruler ??= makeRuler();
  if (ruler.zero.test(cluster)) return 0;
  return ruler.wide.test(cluster) ? 2 : 1;
}
