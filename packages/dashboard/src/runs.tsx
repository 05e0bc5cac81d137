// The page of all runs, in groups by who must act.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Boot, RunRow, RunsPage } from "./api.ts";
import { Chunks } from "./chunks.tsx";
import { useKeys } from "./keys.tsx";
import { useQuery } from "./live.ts";
import {
  A,
  Age,
  Empty,
  Heading,
  Outside,
  PageCommand,
  ProblemCard,
  Repository,
  Scores,
  Skeleton,
  StatusChip,
  Text,
  Trail,
  UnreadRepositories,
  go,
} from "./parts.tsx";
import { type Filter, NO_FILTER, runRoute } from "./router.ts";
import {
  GROUPS,
  actWord,
  followRuns,
  holdRows,
  isFiltered,
  listCommand,
  nowWord,
  runsPath,
  stuckWord,
  todayWord,
} from "./rows.ts";
import { marked, useNow, useProgram, useStore } from "./store.ts";
import { costWord, localTimes, money, plural, resultsWord } from "./words.ts";

const STATUSES = ["running", "queued", "waiting", "paused", "crashed", "saved", "done", "failed", "aborted"];

/** How many finished runs are shown at first. */
const FIRST = 50;

export function RunsPageView({ filter, boot }: { readonly filter: Filter; readonly boot: Boot | null }): JSX.Element {
  const [limit, setLimit] = useState(FIRST);
  const path = runsPath(filter, limit);
  const { data, problem } = useQuery<RunsPage>(path, ["runs"], followRuns);
  const list = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<{ readonly path: string; readonly page: RunsPage } | null>(null);
  // While another filter or more runs are fetched, the rows of the last request stay.
  const held = data === null || shown?.path !== path ? null : holdRows(shown.page, data);
  const busy = (): boolean => list.current?.matches(":hover, :focus-within") ?? false;
  const showNew = (): void => {
    if (data !== null) setShown({ path, page: data });
  };
  useEffect(() => {
    if (data !== null && (held === null || !busy())) showNew();
  }, [data, path]);
  const page = held?.page ?? shown?.page ?? data;
  const waiting = held?.waiting ?? 0;
  useRowKeys();
  const program = useProgram(filter.repo);
  return (
    <>
      <div class="head">
        <Heading>Runs</Heading>
        <Filters filter={filter} boot={boot} page={page} />
        <span class="meta num push">{page === null ? "" : todayWord(page, Date.now())}</span>
      </div>
      {problem === null ? null : <ProblemCard problem={problem} />}
      <div
        ref={list}
        onPointerLeave={() => busy() || showNew()}
        onFocusOut={() => setTimeout(() => busy() || showNew())}
      >
        {waiting === 0 ? null : (
          <button type="button" class="floating new-rows" onClick={showNew}>
            {waiting} new ↑
          </button>
        )}
        {page === null ? <Skeleton rows={8} /> : <Rows page={page} filter={filter} boot={boot} />}
        {page?.more === true ? (
          <button type="button" class="more-rows" disabled={data === null} onClick={() => setLimit(limit * 2)}>
            {data === null ? "Loading…" : "Show older runs"}
          </button>
        ) : null}
      </div>
      <MarkedBar />
      <PageCommand text={listCommand(filter, filter.repo === "" ? null : program)} />
    </>
  );
}

function Filters(props: {
  readonly filter: Filter;
  readonly boot: Boot | null;
  readonly page: RunsPage | null;
}): JSX.Element {
  const { filter, boot, page } = props;
  const search = useRef<HTMLInputElement>(null);
  const set = (part: Partial<Filter>): void => go({ page: "runs", filter: { ...filter, ...part } }, "replace");
  const workflows = [...new Set([filter.workflow, ...(page?.rows ?? []).map(({ run }) => run.workflow)])];
  useKeys({
    "/": () => search.current?.focus(),
    ...(isFiltered(filter) ? { Escape: () => set(NO_FILTER) } : {}),
  });
  const choices = (name: string, key: keyof Filter, values: readonly string[]): JSX.Element => (
    <select aria-label={name} value={filter[key]} onChange={(event) => set({ [key]: event.currentTarget.value })}>
      <option value="">{name}: all</option>
      {values
        .filter((value) => value !== "")
        .map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
    </select>
  );
  return (
    <search class="flex filters">
      <input
        ref={search}
        type="search"
        aria-label="Filter"
        aria-keyshortcuts="/"
        placeholder="Filter by text"
        value={filter.q}
        onInput={(event) => set({ q: event.currentTarget.value })}
      />
      {(boot?.repositories.length ?? 0) > 1 || filter.repo !== ""
        ? choices("Repository", "repo", boot?.repositories.map(({ key }) => key) ?? [filter.repo])
        : null}
      {choices("Status", "status", STATUSES)}
      {workflows.length > 2 || filter.workflow !== "" ? choices("Workflow", "workflow", workflows.toSorted()) : null}
    </search>
  );
}

function Rows(props: { readonly page: RunsPage; readonly filter: Filter; readonly boot: Boot | null }): JSX.Element {
  const { page, filter, boot } = props;
  const total = GROUPS.reduce((sum, [group]) => sum + page.counts[group], 0);
  const many = (boot?.repositories.length ?? 0) > 1;
  return (
    <>
      <UnreadRepositories problems={page.problems} />
      {total === 0 && page.rows.length === 0 ? <NoRuns filter={filter} /> : <Heads />}
      {GROUPS.map(([group, title]) => {
        const rows = page.rows.filter((row) => row.group === group);
        if (rows.length === 0) return null;
        return (
          <section key={group} id={group} class="group" aria-labelledby={`group-${group}`}>
            <h2 class="group-title" id={`group-${group}`}>
              {title} <span class="num">{page.counts[group]}</span>
            </h2>
            <div class="rows" role="list">
              <Chunks items={rows} rowHeight={50}>
                {(row) => <Row key={row.key} row={row} many={many} />}
              </Chunks>
            </div>
          </section>
        );
      })}
    </>
  );
}

/** What the columns are, for the eyes. Each cell says it itself to a screen reader. */
function Heads(): JSX.Element {
  const heads = ["status", "title", "now", "score", "cost", "age", "act"] as const;
  const words = ["Status", "Run", "Now", "Scores, checks", "Cost", "Changed", "Compare"];
  return (
    <div class="row heads" aria-hidden="true">
      {heads.map((head, index) => (
        <span key={head} class={`row-${head}`}>
          {words[index]}
        </span>
      ))}
    </div>
  );
}

function NoRuns({ filter }: { readonly filter: Filter }): JSX.Element {
  if (isFiltered(filter))
    return (
      <Empty title="No run matches the filter.">
        <button type="button" onClick={() => go({ page: "runs", filter: NO_FILTER }, "replace")}>
          Clear the filter
        </button>
      </Empty>
    );
  return (
    <Empty
      title="No runs yet."
      commands={[
        ["holdfast run 42", "works on issue 42 of the repository"],
        ["holdfast demo --keep", "a run that is killed three times, without a real agent"],
      ]}
    />
  );
}

function Row({ row, many }: { readonly row: RunRow; readonly many: boolean }): JSX.Element {
  const selected = useStore(marked).includes(row.key);
  const { pullRequest, reason, budget, group } = row;
  return (
    <div role="listitem" class={`row row-${group}`} data-row={row.key} data-state={row.run.status.kind}>
      <span>
        <StatusChip row={row} brief />
      </span>
      <span class="row-title">
        <A to={runRoute(row.key)} class="row-link">
          <Text>{row.title}</Text>
        </A>
        <span class="meta flex row-sub">
          {many ? <Repository name={row.repository} /> : null}
          <Text class="mono">{row.run.id}</Text>
        </span>
      </span>
      <span class="row-now">
        <Text class="row-reason">{reason === null ? null : localTimes(reason, Date.now())}</Text>
        <span class={reason === null ? "" : "meta"}>
          <Doing row={row} />
        </span>
        <Text class="meta row-said">{row.said}</Text>
        <Text class="meta notice">{stuckWord(row)}</Text>
        {pullRequest === null ? null : (
          <span class="above">
            <Outside link={pullRequest} />
          </span>
        )}
      </span>
      <span class="row-score">
        <Scores scores={row.scores} />
        {row.checks.slice(0, group === "finished" ? 0 : 2).map(({ name, trail }) => (
          <span key={name} class="meta row-check" title={`${name}: ${resultsWord(trail)}`}>
            <Text as="span">{name}</Text> <Trail trail={trail} most={5} />
          </span>
        ))}
      </span>
      <span class="row-cost num">
        <span class="sr-only">cost </span>
        {budget === null ? null : costWord(budget)}
        {budget?.limit.microUsd == null || budget.spent.microUsd === null || budget.unknown.microUsd > 0 ? null : (
          <span class="meta"> / {money(budget.limit.microUsd)}</span>
        )}
      </span>
      <span class="row-age meta">
        <span class="sr-only">changed </span>
        <Age at={row.updatedAt} every={group === "running" ? 1000 : 10_000} />
      </span>
      <span class="row-act">
        {group === "you" ? (
          <A to={{ page: "inbox", run: row.key }} class="button">
            {actWord(row)}
          </A>
        ) : null}
        <label class="mark-box" title="Select for comparison (x)">
          <input type="checkbox" checked={selected} onChange={() => toggleMark(row.key)} />
          <span class="sr-only">Select {row.run.id} for comparison</span>
        </label>
      </span>
    </div>
  );
}

function Doing({ row }: { readonly row: RunRow }): JSX.Element {
  const now = useNow(row.group === "finished" ? 60_000 : 1000);
  return (
    <span class="num">
      <Text>{nowWord(row, now)}</Text>
      {row.crashes > 0 ? <span class="meta"> · survived {plural(row.crashes, "crash", "crashes")}</span> : null}
    </span>
  );
}

function toggleMark(key: string): void {
  const now = marked.get();
  marked.set(now.includes(key) ? now.filter((one) => one !== key) : [...now, key]);
}

function MarkedBar(): JSX.Element | null {
  const keys = useStore(marked);
  if (keys.length === 0) return null;
  return (
    <div class="floating">
      <span>{plural(keys.length, "run")} selected</span>
      <button
        type="button"
        class="primary"
        disabled={keys.length < 2}
        onClick={() => go({ page: "compare", runs: keys })}
      >
        Compare
      </button>
      <button type="button" onClick={() => marked.set([])}>
        Clear
      </button>
    </div>
  );
}

/** j and k move through the rows, x selects, o opens. */
function useRowKeys(): void {
  const rows = (): readonly HTMLElement[] => [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const current = (): HTMLElement | null => document.activeElement?.closest<HTMLElement>("[data-row]") ?? null;
  const move = (by: number): void => {
    const all = rows();
    const now = current();
    const at = now === null ? (by > 0 ? -1 : all.length) : all.indexOf(now);
    all[Math.min(all.length - 1, Math.max(0, at + by))]?.querySelector<HTMLElement>(".row-link")?.focus();
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    o: () => current()?.querySelector<HTMLElement>(".row-link")?.click(),
    x: () => {
      const key = current()?.dataset["row"];
      if (key !== undefined) toggleMark(key);
    },
  });
}
