import type { Page } from "../../output/page.ts";
import { relativeTime } from "../../output/relative-time.ts";
import { renderTable } from "../../output/table.ts";
import type { Column } from "../../output/table.ts";

export interface Tag {
  readonly name: string;
  readonly run: string;
  readonly sequence: number;
}

export function tagsText(
  tags: readonly (Tag & { readonly createdAt: string; readonly label: string | null })[],
  page: Page,
): string {
  const columns: readonly Column[] = [
    { title: "TAG", shrinkTo: 10 },
    { title: "CHECKPOINT", shrinkTo: 16, last: true, cut: "middle" },
    { title: "TAKEN" },
    { title: "NAME", shrinkTo: 8, optional: true },
  ];
  const rows = tags.map((tag) => [
    { text: tag.name, style: "bold" } as const,
    { text: `${tag.run}@${tag.sequence}` },
    { text: relativeTime(tag.createdAt, page.now), style: "dim" } as const,
    { text: tag.label ?? "" },
  ]);
  return renderTable({ columns, rows }, page);
}
