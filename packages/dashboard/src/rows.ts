// The list of runs as data: its groups, and what an event changes in it. Pure.
import type { Group, InboxItem, LiveEvent, RunRow, RunsPage } from "./api.ts";
import { type At, type Filter, NO_FILTER } from "./router.ts";
import { duration, failuresOf, money, plural, quoteWord, stageWord, untilWord } from "./words.ts";

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

/** `limit`: how many finished runs. */
export function runsPath(filter: Filter, limit: number): string {
  const query = new URLSearchParams(
    Object.entries({ ...filter, limit: String(limit) }).filter(([, value]) => value !== ""),
  );
  return `/api/runs?${query.toString()}`;
}

/** The command that lists what the filter leaves. `program`: of the one repository that is shown; null: all are. */
export function listCommand({ status, workflow, q }: Filter, program: string | null): string {
  const list = program === null ? "holdfast list --all-repositories" : `${program} list`;
  const flags = [
    ["--status", status],
    ["--workflow", workflow],
  ].flatMap(([flag = "", value = ""]) => (value === "" ? [] : [`${flag} ${quoteWord(value)}`]));
  return [list, ...flags, ...(q === "" ? [] : [`| grep -iF -e ${quoteWord(q)}`])].join(" ");
}

/** The arguments of the command that shows what the tab shows. Only JSON has a conversation, messages or a whole entry; checks and cost are in the report. */
export function tabCommand({ tab, entry }: At<"run">, { run: { id, latest, status } }: RunRow): string {
  switch (tab) {
    case "now":
      return `output ${id}${status.kind === "running" ? " --follow" : ""}`;
    case "conversation":
    case "team":
      return latest === null ? `output ${id}` : `show ${id}@${latest.sequence} --json`;
    case "journal":
      return entry === null ? `events ${id}` : `events ${id} --after ${entry - 1} --limit 1 --json`;
    case "effects":
      return `show ${id}`;
    case "graph":
      return `show ${id} --graph`;
    case "changes":
    case "checks":
    case "cost":
      return `format export ${id} --to html`;
  }
}

/** What the button of a row that needs the user leads to. */
export function actWord({ run: { status } }: RunRow): string {
  return status.kind === "waiting" && status.question !== null ? "Answer" : "See why";
}

/** From this many failures in a row on, a check is worth a notice. */
const STUCK_FROM = 3;

/** `check-1 fails 26 times in a row` of a run that works; null: nothing of the kind. */
export function stuckWord({ group, checks }: RunRow): string | null {
  if (group !== "running") return null;
  const stuck = checks
    .map(({ name, trail }) => ({ name, failures: failuresOf(trail) }))
    .filter(({ failures }) => failures >= STUCK_FROM)
    .toSorted((a, b) => b.failures - a.failures)[0];
  return stuck === undefined ? null : `${stuck.name} fails ${stuck.failures} times in a row`;
}

/** The runs that changed today, and what they cost until now: at least, while older rows are not fetched. */
export function todayWord({ rows, more }: Pick<RunsPage, "rows" | "more">, now: number): string {
  const day = new Date(now).toDateString();
  const today = rows.filter(({ updatedAt }) => new Date(updatedAt).toDateString() === day);
  const cost = today.reduce((sum, { ownMicroUsd }) => sum + ownMicroUsd, 0);
  const least = more && rows.at(-1) === today.at(-1) ? "at least " : "";
  return today.length === 0
    ? ""
    : `today ${least}${plural(today.length, "run")}${cost === 0 ? "" : ` · ${money(cost)}`}`;
}

export function isFiltered(filter: Filter): boolean {
  return Object.keys(NO_FILTER).some((name) => filter[name as keyof Filter] !== "");
}

/** What the run does, in a few words: `impl #2 · agent`. */
export function whereOf({ run, step }: RunRow): string {
  const stage = run.stage === null ? null : stageWord(run.stage, run.iteration);
  return [stage, step?.title ?? null].filter((part) => part !== null).join(" · ");
}

/** The same with its time: since when its step runs, until when it waits, or its number in the queue. */
export function nowWord(row: RunRow, now: number): string {
  const { status } = row.run;
  const since = row.step === null || row.group !== "running" ? "" : duration(now - Date.parse(row.step.since));
  const until = status.kind === "waiting" && status.until !== null ? untilWord(status.until, row.continues, now) : "";
  const queued = status.kind === "queued" && status.position !== null ? `number ${status.position} in the queue` : "";
  return [whereOf(row), since, until, queued].filter((part) => part !== "").join(" · ");
}

/**
 * The rows of the next page in the places of those that are shown, so that nothing moves under the pointer or the focus. A removed run goes at
 * once. `waiting`: how many rows are new or in another group.
 */
export function holdRows(shown: RunsPage, next: RunsPage): { readonly page: RunsPage; readonly waiting: number } {
  const rows = new Map(next.rows.map((row) => [row.key, row]));
  const groups = new Map(shown.rows.map(({ key, group }) => [key, group]));
  const waiting = next.rows.filter(({ key, group }) => groups.get(key) !== group).length;
  if (waiting === 0) return { page: next, waiting };
  const kept = shown.rows.flatMap(({ key, group }) => {
    const row = rows.get(key);
    return row === undefined ? [] : [{ ...row, group }];
  });
  return { page: { ...next, rows: kept, counts: shown.counts }, waiting };
}

/** Each entry once, the newest first, down to the first one that is missing: many may have come while none was fetched. */
export function newestEntries<T extends { readonly entry: number }>(entries: readonly T[]): readonly T[] {
  const known = new Map(entries.map((one) => [one.entry, one]));
  const found: T[] = [];
  for (let one = known.get(Math.max(...known.keys())); one !== undefined; one = known.get(one.entry - 1))
    found.push(one);
  return found;
}

/** Runs that the user put off, with the number of their entries then. */
export function parseLater(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** What waits and was not put off. A new entry brings a run back. */
export function openItems(items: readonly InboxItem[], later: string): readonly InboxItem[] {
  const putOff = parseLater(later);
  return items.filter(({ row }) => putOff[row.key] !== row.run.entries);
}
