import type { LoopCleanupPlan } from "../../../app.ts";
import { byteText } from "../../output/byte-text.ts";
import { countText } from "../../output/count-text.ts";
import type { Page } from "../../output/page.ts";
import { renderTable } from "../../output/table.ts";
import type { Cell } from "../../output/table.ts";

/** The files below `.aiwg`, loop by loop; nothing where there are none. */
export function loopsText(plans: readonly LoopCleanupPlan[], page: Page): string {
  const columns = [
    { title: "LOOP", shrinkTo: 16, last: true, cut: "middle" },
    { title: "FILE", shrinkTo: 13 },
    { title: "DO" },
    { title: "FREES", align: "right", optional: true },
    { title: "WHY", shrinkTo: 24, wrap: true },
  ] as const;
  const rows = plans.flatMap(({ run, files }) =>
    files.map(({ path, action, bytes, why }): readonly Cell[] => [
      { text: run },
      { text: (path.split("/").at(-1) ?? path).replace(/\.json(?:\.gz)?$/, "") },
      { text: action, style: action === "drop" ? "red" : "green" },
      { text: action === "drop" ? byteText(bytes) : "" },
      { text: why },
    ]),
  );
  if (rows.length === 0) return "";
  const files = plans.flatMap((plan) => plan.files);
  const drops = files.filter(({ action }) => action === "drop").length;
  return `\n${renderTable({ columns, rows }, page)}\nBelow .aiwg: would remove ${countText(drops, "file")}, keep ${files.length - drops}.\n`;
}

export function loopsReportText(plans: readonly LoopCleanupPlan[]): string {
  const drops = plans.flatMap(({ files }) => files.filter(({ action }) => action === "drop")).length;
  return drops === 0 ? "" : `Removed ${countText(drops, "file")} below .aiwg.\n`;
}
