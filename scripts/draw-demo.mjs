#!/usr/bin/env node
// Draws docs/demo.svg: the demo as a terminal shows it. Run it after a change of the demo's output, on a built checkout.
//   node scripts/draw-demo.mjs [--seed N]
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const ROOT = join(import.meta.dirname, "..");
const { values } = parseArgs({ options: { seed: { type: "string", default: "4346" } } });
const [WIDTH, LINE, COLUMN, MARGIN] = [80, 17, 7.83, 16];
/** Codes of select graphic rendition, with the class that they switch on. Any other code switches it off. */
const STYLES = new Map([
  ["1", "bold"],
  ["2", "dim"],
  ["31", "red"],
  ["32", "green"],
  ["33", "yellow"],
]);

const printed = execFileSync(
  process.execPath,
  [join(ROOT, "packages/holdfast/bin/holdfast.cjs"), "demo", "--seed", values.seed],
  { encoding: "utf8", env: { ...process.env, FORCE_COLOR: "1", NO_COLOR: undefined, COLUMNS: String(WIDTH) } },
);
const lines = [`$ npm run demo -- --seed ${values.seed}`, "", ...printed.trimEnd().split("\n")];
writeFileSync(join(ROOT, "docs/demo.svg"), draw(lines));

function draw(texts) {
  const [width, height] = [Math.ceil(WIDTH * COLUMN) + 2 * MARGIN, texts.length * LINE + 2 * MARGIN];
  const rows = texts.map((text, at) => `<text x="${MARGIN}" y="${MARGIN + (at + 0.75) * LINE}">${spans(text)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<title>holdfast demo, killed three times</title>
<style>
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6deeb }
.bold { font-weight: 700; fill: #fff } .dim { fill: #8a97a8 } .red { fill: #ff7b72 } .green { fill: #7ee787 } .yellow { fill: #e3b341 }
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${rows.join("\n")}
</svg>
`;
}

/** Styled parts of one line. */
function spans(text) {
  const [plain, ...styled] = text.split("\u001b[");
  const parts = styled.map((part) => {
    const [code = "", words = ""] = part.split(/m(.*)/);
    const style = STYLES.get(code);
    return style === undefined ? escape(words) : `<tspan class="${style}">${escape(words)}</tspan>`;
  });
  return escape(plain) + parts.join("");
}

function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
