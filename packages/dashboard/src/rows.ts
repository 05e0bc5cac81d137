// The list of runs as data: its groups, and what an event changes in it. Pure.
import type { Group, LiveEvent, RunRow, RunsPage } from "./api.ts";
import { type Filter, NO_FILTER } from "./router.ts";
import { stageWord } from "./words.ts";

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
  const stage = run.stage === null ? null : stageWord(run.stage, run.iteration);
  return [stage, step?.title ?? null].filter((part) => part !== null).join(" · ");
}

/**
 * The rows of the next page in the places of those that are shown, so that nothing moves under the pointer or the focus. `waiting`: how many rows
 * are new or in another group.
 */
export function holdRows(shown: RunsPage, next: RunsPage): { readonly page: RunsPage; readonly waiting: number } {
  const rows = new Map(next.rows.map((row) => [row.key, row]));
  const groups = new Map(shown.rows.map(({ key, group }) => [key, group]));
  const waiting = next.rows.filter(({ key, group }) => groups.get(key) !== group).length;
  if (waiting === 0) return { page: next, waiting };
  const kept = shown.rows.map((row) => ({ ...(rows.get(row.key) ?? row), group: row.group }));
  return { page: { ...next, rows: kept, counts: shown.counts }, waiting };
}
