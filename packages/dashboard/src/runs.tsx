// The page of all runs, in groups by who must act.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Boot, type RunRow, type RunsPage } from "./api.ts";
import { useKeys } from "./keys.tsx";
import { useQuery } from "./live.ts";
import {
  A,
  Age,
  Command,
  Empty,
  Outside,
  PageCommand,
  ProblemCard,
  Repository,
  Scores,
  Skeleton,
  StatusChip,
  Text,
  Trail,
  go,
} from "./parts.tsx";
import { type Filter, NO_FILTER, runRoute } from "./router.ts";
import { GROUPS, followRuns, holdRows, isFiltered, runsPath, whereOf } from "./rows.ts";
import { marked, useNow, useStore } from "./store.ts";
import { amount, duration, money, moment, plural } from "./words.ts";

const STATUSES = ["running", "queued", "waiting", "paused", "crashed", "saved", "done", "failed", "aborted"];

export function RunsPageView({ filter, boot }: { readonly filter: Filter; readonly boot: Boot | null }): JSX.Element {
  const { data, problem } = useQuery<RunsPage>(runsPath(filter), ["runs"], followRuns);
  const list = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<{ readonly filter: Filter; readonly page: RunsPage } | null>(null);
  // While another filter is fetched, the rows of the last one stay.
  const held = data === null || shown?.filter !== filter ? null : holdRows(shown.page, data);
  const busy = (): boolean => list.current?.matches(":hover, :focus-within") ?? false;
  const showNew = (): void => {
    if (data !== null) setShown({ filter, page: data });
  };
  useEffect(() => {
    if (data !== null && (held === null || !busy())) showNew();
  }, [data, filter]);
  const page = held?.page ?? shown?.page ?? data;
  const waiting = held?.waiting ?? 0;
  useRowKeys();
  const { repo, q } = filter;
  const command = ["holdfast list", repo === "" ? "--all-repositories" : "", q === "" ? "" : `| grep ${q}`];
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>Runs</h1>
        <Filters filter={filter} boot={boot} page={page} />
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
      </div>
      <MarkedBar />
      <PageCommand text={command.filter((part) => part !== "").join(" ")} />
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
      {page.problems.map(({ repository, problem }) => (
        <section key={repository} class="card problem">
          <h2>
            <Repository name={repository} />
          </h2>
          <Text as="p">{problem.message}</Text>
          {problem.command === null ? null : <Command text={problem.command} />}
        </section>
      ))}
      {total === 0 && page.rows.length === 0 ? <NoRuns filter={filter} /> : null}
      {GROUPS.map(([group, title]) => {
        const rows = page.rows.filter((row) => row.group === group);
        if (rows.length === 0) return null;
        return (
          <section key={group} class={`group group-${group}`} aria-labelledby={`group-${group}`}>
            <h2 class="group-title" id={`group-${group}`}>
              {title} <span class="num">{page.counts[group]}</span>
            </h2>
            <ul class="rows">
              {rows.map((row) => (
                <Row key={row.key} row={row} many={many} />
              ))}
              {group === "finished" && page.next !== null ? (
                <More filter={filter} before={page.next} many={many} />
              ) : null}
            </ul>
          </section>
        );
      })}
    </>
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

function More(props: { readonly filter: Filter; readonly before: string; readonly many: boolean }): JSX.Element {
  const [shown, setShown] = useState(false);
  const { data } = useQuery<RunsPage>(shown ? runsPath(props.filter, props.before) : null);
  if (data === null)
    return (
      <li class="more-rows">
        <button type="button" disabled={shown} onClick={() => setShown(true)}>
          {shown ? "Loading…" : "Show older runs"}
        </button>
      </li>
    );
  const finished = data.rows.filter(({ group }) => group === "finished");
  return (
    <>
      {finished.map((row) => (
        <Row key={row.key} row={row} many={props.many} />
      ))}
      {data.next === null ? null : <More filter={props.filter} before={data.next} many={props.many} />}
    </>
  );
}

function Row({ row, many }: { readonly row: RunRow; readonly many: boolean }): JSX.Element {
  const selected = useStore(marked).includes(row.key);
  const { pullRequest, reason, budget, group } = row;
  return (
    <li class={`row row-${group}`} data-row={row.key} data-state={row.run.status.kind}>
      <span class="row-status">
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
        <Text class="row-reason">{reason}</Text>
        <span class={reason === null ? "" : "meta"}>
          <Doing row={row} />
        </span>
        {pullRequest === null ? null : (
          <span class="above">
            <Outside link={pullRequest} />
          </span>
        )}
      </span>
      <span class="row-score">
        <Scores scores={row.scores} />
        {row.checks.slice(0, group === "finished" ? 0 : 2).map(({ name, trail }) => (
          <span key={name} class="meta" title={name}>
            <Trail trail={trail} />
          </span>
        ))}
      </span>
      <span class="row-cost num">
        {budget === null ? null : amount(budget.spent)}
        {budget?.limit.microUsd == null || budget.spent.microUsd === null ? null : (
          <span class="meta"> / {money(budget.limit.microUsd)}</span>
        )}
      </span>
      <span class="row-age meta">
        <Age at={row.updatedAt} every={group === "running" ? 1000 : 10_000} />
      </span>
      <span class="row-act">
        {group === "you" ? (
          <A to={{ page: "inbox", run: row.key }} class="button">
            Answer
          </A>
        ) : null}
        <label class="mark-box" title="Select for comparison (x)">
          <input type="checkbox" checked={selected} onChange={() => toggleMark(row.key)} />
          <span class="sr-only">Select {row.run.id} for comparison</span>
        </label>
      </span>
    </li>
  );
}

function Doing({ row }: { readonly row: RunRow }): JSX.Element {
  const now = useNow(1000);
  const { status } = row.run;
  const since = row.step === null ? "" : ` · ${duration(Math.max(0, now - Date.parse(row.step.since)))}`;
  const until =
    status.kind === "waiting" && status.until !== null && !status.due
      ? `until ${moment(status.until, now)}, then it continues by itself`
      : "";
  const queued = status.kind === "queued" && status.position !== null ? `number ${status.position} in the queue` : "";
  const parts = [`${whereOf(row)}${row.group === "running" ? since : ""}`, until, queued].filter((part) => part !== "");
  return (
    <span class="num">
      <Text>{parts.join(" · ")}</Text>
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
