// The list of runs as data: its groups, and what an event changes in it. Pure.
import type { Group, LiveEvent, RunRow, RunsPage } from "./api.ts";
import { type Filter, NO_FILTER } from "./router.ts";

export const GROUPS: readonly (readonly [Group, string])[] = [
  ["you", "Needs you"],
  ["running", "Running"],
  ["waiting", "Waiting"],
  ["finished", "Finished"],
];

/**
 * The page after an event. A row that stays in its group is replaced where it is, so that nothing moves under the pointer; anything else needs
 * the server's order and counts.
 */
export function followRuns(page: RunsPage, event: LiveEvent): RunsPage | "again" {
  if (event.event === "removed") return page.rows.some(({ key }) => key === event.data.key) ? "again" : page;
  if (event.event !== "run") return page;
  const row = event.data;
  const before = page.rows.find(({ key }) => key === row.key);
  if (before === undefined || before.group !== row.group) return "again";
  return { ...page, rows: page.rows.map((one) => (one.key === row.key ? row : one)) };
}

export function runsPath(filter: Filter, before: string | null = null): string {
  const query = new URLSearchParams(
    [...Object.entries(filter), ["before", before ?? ""]].flatMap(([name = "", value = ""]) =>
      value === "" ? [] : [[name, value]],
    ),
  );
  return `/api/runs${query.size === 0 ? "" : `?${query.toString()}`}`;
}

export function isFiltered(filter: Filter): boolean {
  return Object.keys(NO_FILTER).some((name) => filter[name as keyof Filter] !== "");
}

/** What the run does, in a few words: `impl #2 · agent`. */
export function whereOf({ run, step }: RunRow): string {
  const stage = run.stage === null ? null : run.iteration > 0 ? `${run.stage} #${run.iteration}` : run.stage;
  return [stage, step?.title ?? null].filter((part) => part !== null).join(" · ");
}
