// The parts that all pages share: icons, status chips, text from outside, links, commands, gauges and tabs.
import { type ComponentChildren, Fragment, type JSX, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Budget, Link, Problem, RunRow, RunsPage } from "./api.ts";
import type { Query } from "./live.ts";
import { NO_FILTER, type Route, hrefOf, parseRoute } from "./router.ts";
import { announcement, createStore, useNow } from "./store.ts";
import {
  type Tone,
  age,
  gaugesOf,
  moment,
  partsOf,
  resultsWord,
  reveal,
  scoreWord,
  toneOf,
  webAddress,
} from "./words.ts";

/** Paths on a grid of 16 by 16, drawn with strokes. `fill:` draws a filled shape. */
const ICONS = {
  anchor: "M8 5.2V14M5 7.5h6M2.5 9.5C3 12.3 5.2 14 8 14s5-1.7 5.5-4.5M8 5.2a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2",
  running: "fill:M8 3a5 5 0 1 1 0 10A5 5 0 0 1 8 3",
  queued: "M3 4.5h10M3 8h10M3 11.5h6",
  you: "fill:M8 1.5 14.5 8 8 14.5 1.5 8Z",
  waiting: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 5v3.2l2.2 1.5",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  crashed: "M5.2 3.3a5.5 5.5 0 0 0-.4 9.2M10.8 12.7a5.5 5.5 0 0 0 .4-9.2M9 2 7 6.5l2.5 2L7.2 14",
  saved: "M4.5 2.5h7v11L8 10.8l-3.5 2.7Z",
  done: "m3 8.5 3.2 3.2L13 4.8",
  failed: "m4 4 8 8M12 4l-8 8",
  aborted: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M4.2 11.8l7.6-7.6",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.3 10.3 14 14",
  theme: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 2.5v11M8 5l4.5-.8M8 8h5.5M8 11h4.5",
  help: "M5.8 6a2.3 2.3 0 1 1 3.3 2c-.8.4-1.1.9-1.1 1.7M8 12.3v.2",
  outside: "M6.5 3.5h-3v9h9v-3M9.5 2.5h4v4M13.5 2.5 7.5 8.5",
  back: "M10 3 5 8l5 5",
  next: "m6 3 5 5-5 5",
  more: "fill:M3 7a1.2 1.2 0 1 0 0 2.4A1.2 1.2 0 0 0 3 7m5 0a1.2 1.2 0 1 0 0 2.4A1.2 1.2 0 0 0 8 7m5 0a1.2 1.2 0 1 0 0 2.4A1.2 1.2 0 0 0 13 7",
  undo: "M5.5 3 2.5 6l3 3M3 6h6.5a3.5 3.5 0 0 1 0 7H6",
  fork: "M4 2.5v11M4 9c5 0 7.5-1.5 7.5-5.5M11.5 3.5l-2 2M11.5 3.5l2 2",
  effect: "M13.5 2.5 7 9M13.5 2.5 9.5 13.5 7 9 2.5 6.5Z",
  answer: "M2.5 3.5h11v7h-6l-3 3v-3h-2Z",
  tag: "M2.5 2.5h5l6 6-5 5-6-6ZM5.5 5.5v.1",
  restore: "M3 8a5 5 0 1 0 1.7-3.8M3 2.5v3h3",
  star: "fill:m8 1.8 1.9 4 4.3.6-3.1 3 .8 4.3L8 11.6l-3.9 2.1.8-4.3-3.1-3 4.3-.6Z",
  warning: "M8 2.5 14.2 13.5H1.8ZM8 6.5v3.2M8 11.4v.2",
} as const;
export type IconName = keyof typeof ICONS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  const shape: string = ICONS[name];
  const filled = shape.startsWith("fill:");
  return (
    <svg class={`icon ${filled ? "icon-filled" : ""}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={filled ? shape.slice(5) : shape} />
    </svg>
  );
}

/** Text from outside. Characters that cannot be seen are shown as marks. Without text there is nothing, not even the element. */
export function Text(props: {
  readonly as?: "span" | "p" | "code" | "b" | "pre" | "h2" | "li" | "dt";
  readonly class?: string;
  readonly children: string | null;
}): JSX.Element | null {
  if (props.children === null) return null;
  const pieces = reveal(props.children).map(({ text, mark }, index) =>
    mark ? (
      <span key={index} class="mark" title="an invisible character">
        {text}
      </span>
    ) : (
      text
    ),
  );
  if (props.as === undefined && props.class === undefined) return <Fragment>{pieces}</Fragment>;
  return h(props.as ?? "span", props.class === undefined ? null : { class: props.class }, pieces);
}

/** The heading of a page. It takes the focus if what had it is gone with the page before. */
export function Heading(props: { readonly class?: string; readonly children: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (hasMoved && document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, []);
  return <h1 ref={heading} tabIndex={-1} {...props} />;
}

/** Long text from outside in a box that scrolls. */
export function Box(props: {
  readonly label: string;
  readonly class?: string;
  readonly children: string;
}): JSX.Element {
  return (
    <pre class={`box ${props.class ?? ""}`} role="region" aria-label={props.label} tabIndex={0}>
      <Text>{props.children}</Text>
    </pre>
  );
}

/** A term and what it is. Nothing for what is not known. */
export function Fact(props: {
  readonly title: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}): JSX.Element | null {
  if (props.children === null || props.children === undefined) return null;
  return (
    <div>
      <Text as="dt">{props.title}</Text>
      <dd class={props.class ?? "num"}>{props.children}</dd>
    </div>
  );
}

/** A table whose first column names its rows. `right`: the column from which on cells are numbers. An empty text heads no column. */
export function Table(props: {
  readonly head: readonly ComponentChildren[];
  readonly rows: readonly (readonly ComponentChildren[])[];
  readonly right?: number;
  readonly class?: string;
}): JSX.Element {
  const { head, rows, right = head.length } = props;
  const side = (column: number): string => (column >= right ? "right num" : "num");
  return (
    <table class={`table ${props.class ?? ""}`}>
      <thead>
        <tr>
          {head.map((title, column) =>
            title === "" ? (
              <td key={column} />
            ) : (
              <th key={column} scope="col" class={side(column)}>
                {title}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, ...cells], row) => (
          <tr key={row}>
            <th scope="row">{name}</th>
            {cells.map((cell, column) => (
              <td key={column} class={side(column + 1)}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What a query has answered: its problem, its data, or rows that stand for data on its way. */
export function Loaded<T>(props: {
  readonly query: Pick<Query<T>, "data" | "problem">;
  readonly rows?: number;
  readonly children: (data: T) => ComponentChildren;
}): JSX.Element {
  const { data, problem } = props.query;
  return (
    <>
      {problem === null ? null : <ProblemCard problem={problem} />}
      {data === null ? problem === null && <Skeleton rows={props.rows ?? 4} /> : props.children(data)}
    </>
  );
}

export function IconButton(props: {
  readonly icon: IconName;
  readonly label: string;
  readonly title?: string;
  readonly class?: string;
  readonly disabled?: boolean;
  readonly onClick: () => void;
}): JSX.Element {
  const { icon, label, class: more = "", ...rest } = props;
  return (
    <button type="button" class={`icon-button ${more}`} aria-label={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

export const route = createStore<Route>({ page: "home" });

/** Whether the user has gone from one address to another. */
let hasMoved = false;
let opened = false;

export function readAddress(): void {
  hasMoved ||= opened;
  opened = true;
  route.set(parseRoute(location.pathname, location.search));
}

export function go(to: Route, how: "push" | "replace" = "push"): void {
  const href = hrefOf(to);
  if (how === "push" && href !== location.pathname + location.search) history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  readAddress();
}

interface AnchorProps {
  readonly to: Route;
  /** Replaces the address in the history, for what is no page of its own. */
  readonly quiet?: boolean;
  readonly class?: string;
  readonly title?: string;
  readonly "aria-current"?: "page" | "true" | undefined;
  readonly "aria-label"?: string;
  readonly children: ComponentChildren;
}

/** A link to another address of the page. */
export function A({ to, quiet = false, ...rest }: AnchorProps): JSX.Element {
  return (
    <a
      {...rest}
      href={hrefOf(to)}
      onClick={(event) => {
        if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        go(to, quiet ? "replace" : "push");
      }}
    />
  );
}

/** A link that leaves the page shows its host. An address that is not http or https is text. */
export function Outside({ link }: { readonly link: Link }): JSX.Element | null {
  const url = webAddress(link.url);
  if (url === null) return <Text as="span">{link.text}</Text>;
  return (
    <a class="outside" href={url.href} rel="noopener noreferrer" target="_blank" title={url.host}>
      <Text>{link.text}</Text>
      <Icon name="outside" />
      <span class="sr-only"> on {url.host}, opens a new tab</span>
    </a>
  );
}

export function StatusChip({ row, brief = false }: { readonly row: RunRow; readonly brief?: boolean }): JSX.Element {
  const { status } = row.run;
  const until = status.kind === "waiting" && !brief ? status.until : null;
  return (
    <Chip tone={toneOf(status)}>
      <Text>{`${row.statusWord}${until === null ? "" : ` until ${moment(until, Date.now())}`}`}</Text>
    </Chip>
  );
}

/** `plain`: a status without an icon. */
export function Chip(props: {
  readonly tone: Tone;
  readonly plain?: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <span class={`chip tone-${props.tone}`} data-state={props.tone}>
      {props.plain === true ? null : <Icon name={props.tone} />}
      <span>{props.children}</span>
    </span>
  );
}

/** The time since a moment. The full time is its tooltip. `ago`: as a part of a sentence. */
export function Age(props: { readonly at: string; readonly every?: number; readonly ago?: true }): JSX.Element {
  const { at, every = 10_000, ago } = props;
  const now = useNow(every);
  const text = age(at, now);
  return (
    <time class="num" dateTime={at} title={moment(at, now)}>
      {ago === undefined ? text : text === "now" ? "just now" : `${text} ago`}
    </time>
  );
}

export function say(text: string): void {
  announcement.set("");
  setTimeout(() => announcement.set(text), 30);
}

/** A command of the CLI that does the same, with a button that copies it. */
export function Command({ text }: { readonly text: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const [begin, place, rest] = partsOf(text);
  return (
    <div class="command">
      <code>
        <Text>{begin}</Text>
        {place === "" ? null : (
          <span class="command-place" title={place}>
            <bdi>
              <Text>{place}</Text>
            </bdi>
          </span>
        )}
        <Text>{rest}</Text>
      </code>
      <IconButton
        icon={copied ? "done" : "copy"}
        title={copied ? "copied" : "Copy this command"}
        label={`Copy the command ${text}`}
        onClick={() => {
          void copy(text).then((done) => setCopied(done));
          setTimeout(() => setCopied(false), 1500);
        }}
      />
    </div>
  );
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
    return true;
  } catch {
    say("The browser did not allow copying");
    return false;
  }
}

/** The command of the page that is shown, for the key `.`. */
export const pageCommand = createStore("");

export function PageCommand({ text }: { readonly text: string }): JSX.Element {
  useEffect(() => {
    pageCommand.set(text);
    return () => pageCommand.set("");
  }, [text]);
  return (
    <footer class="page-command" aria-label="The same in the terminal">
      <Command text={text} />
    </footer>
  );
}

export function ProblemCard({ problem }: { readonly problem: Problem }): JSX.Element {
  return (
    <section class="card problem" role="alert">
      <h2>
        <Icon name="warning" /> <Text>{problem.message}</Text>
      </h2>
      <Text as="p">{problem.hint}</Text>
      {problem.command === null ? null : <Command text={problem.command} />}
      <Text as="p" class="meta mono">
        {problem.code}
      </Text>
    </section>
  );
}

/** Repositories whose runs are missing here, or old. */
export function UnreadRepositories({ problems }: Pick<RunsPage, "problems">): JSX.Element {
  return (
    <>
      {problems.map(({ repository, problem }) => (
        <section key={repository} class="card problem">
          <h2>
            <Repository name={repository} />
          </h2>
          <Text as="p">{problem.message}</Text>
          {problem.command === null ? null : <Command text={problem.command} />}
        </section>
      ))}
    </>
  );
}

/** An empty list names what to do next. */
export function Empty(props: {
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly commands?: readonly (readonly [string, string])[];
}): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children}
      {(props.commands ?? []).map(([command, about]) => (
        <div key={command} class="flex">
          <Command text={command} />
          <span class="meta">{about}</span>
        </div>
      ))}
    </div>
  );
}

/** Rows that stand for data on its way. They appear only when nothing older can be shown. */
export function Skeleton({ rows = 4 }: { readonly rows?: number }): JSX.Element {
  return (
    <div class="skeleton" role="status">
      <span class="sr-only">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} class="skeleton-row" />
      ))}
    </div>
  );
}

export function Scores({ scores }: { readonly scores: readonly number[] }): JSX.Element | null {
  const shown = scores.slice(-4);
  const best = Math.max(...scores);
  if (shown.length === 0) return null;
  return (
    <span class="num" title={`scores: ${scores.map(scoreWord).join(", ")}`}>
      <span class="sr-only">scores </span>
      {scores.length > shown.length ? <span class="meta">… </span> : null}
      {shown.map((score, index) => (
        <span key={index} class={score === best ? "score-best" : "score"}>
          {scoreWord(score)}{" "}
        </span>
      ))}
    </span>
  );
}

/** What a check said, one sign for each time. */
export function Trail({
  trail,
  most = 12,
}: {
  readonly trail: readonly boolean[];
  readonly most?: number;
}): JSX.Element {
  const shown = trail.slice(-most);
  return (
    <span class="trail">
      <span class="sr-only">{resultsWord(shown)}</span>
      <span aria-hidden="true">
        {trail.length > shown.length ? "…" : ""}
        {shown.map((passed, index) => (
          <span key={index} class={passed ? "passed" : "missed"}>
            {passed ? "✓" : "✗"}
          </span>
        ))}
      </span>
    </span>
  );
}

export function Gauges({ budget }: { readonly budget: Budget }): JSX.Element | null {
  const gauges = gaugesOf(budget, useNow(1000));
  if (gauges.length === 0) return null;
  return (
    <dl class="run-facts">
      {gauges.map(({ name, spent, limit, filled, reserved }) => (
        <div key={name} class="gauge">
          <dt>{name}</dt>
          <dd class="num">
            {spent} <span class="meta">{limit === null ? "no limit" : `of ${limit}`}</span>
            {filled === null ? null : (
              <svg class={filled >= 0.9 ? "bar bar-high" : "bar"} aria-hidden="true">
                <rect class="bar-track" width="100%" height="6" rx="3" />
                <rect class="bar-spent" width={`${filled * 100}%`} height="6" rx="3" />
                <rect class="bar-reserved" x={`${filled * 100}%`} width={`${reserved * 100}%`} height="6" />
              </svg>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A letter and the name of a repository. */
export function Repository({ name }: { readonly name: string }): JSX.Element {
  return (
    <span>
      <span class="badge" aria-hidden="true">
        {[...name][0] ?? "?"}
      </span>
      <Text>{name}</Text>
    </span>
  );
}

/** What a run's page and its report have in common. */
export function RowFacts({ row }: { readonly row: RunRow }): JSX.Element {
  const { scores, checks, issue, pullRequest, branch } = row;
  return (
    <>
      <Fact title="Scores">{scores.length === 0 ? null : <Scores scores={scores} />}</Fact>
      {checks.slice(0, 6).map(({ name, trail }) => (
        <Fact key={name} title={name}>
          <Trail trail={trail} />
        </Fact>
      ))}
      <Fact title="Issue">{issue === null ? null : <Outside link={issue} />}</Fact>
      <Fact title="Pull request">{pullRequest === null ? null : <Outside link={pullRequest} />}</Fact>
      <Fact title="Branch" class="mono">
        {branch === null ? null : <Text>{branch}</Text>}
      </Fact>
    </>
  );
}

/** The head of a page about a run: where it is, its title, and what can be done. */
export function RunHead(props: {
  readonly repository: string;
  readonly run: ComponentChildren;
  readonly title: ComponentChildren;
  readonly actions: ComponentChildren;
}): JSX.Element {
  return (
    <div class="apart run-head">
      <div>
        <p class="crumbs meta">
          <A to={{ page: "runs", filter: NO_FILTER }}>Runs</A>
          <span aria-hidden="true">/</span>
          <Repository name={props.repository} />
          <span aria-hidden="true">/</span>
          {props.run}
        </p>
        {props.title}
      </div>
      {props.actions}
    </div>
  );
}

/** Where a key of a row of things leads: to the next, the previous, the first or the last one. Null: another key. */
export function stepOf(key: string, at: number, length: number): number | null {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: length - 1 }[key];
  return to ?? null;
}

export interface TabEntry<T extends string> {
  readonly key: T;
  readonly label: string;
  readonly count?: number | null;
  /** A second line. */
  readonly about?: string;
}

/** Tabs by the ARIA pattern: arrows move, the tab that is shown is the only tab stop. */
export function Tabs<T extends string>(props: {
  readonly label: string;
  readonly tabs: readonly TabEntry<T>[];
  readonly shown: T;
  readonly onShow: (key: T) => void;
  readonly class?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  const { tabs, shown, onShow } = props;
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const to = stepOf(
      event.key,
      tabs.findIndex(({ key }) => key === shown),
      tabs.length,
    );
    const next = to === null ? undefined : tabs.at(to % tabs.length);
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onShow(next.key);
    list.current?.querySelector<HTMLElement>(`#tab-${next.key}`)?.focus();
  };
  return (
    <div class={props.class ?? ""}>
      <div role="tablist" aria-label={props.label} class="tab-list" ref={list} onKeyDown={move}>
        {tabs.map(({ key, label, count = null, about }) => (
          <button
            key={key}
            id={`tab-${key}`}
            type="button"
            role="tab"
            aria-selected={key === shown}
            aria-controls="tab-panel"
            tabIndex={key === shown ? 0 : -1}
            onClick={() => onShow(key)}
          >
            {label}
            {count === null ? null : <span class="count num">{count}</span>}
            <Text class="meta">{about ?? null}</Text>
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${shown}`} class="tab-panel" tabIndex={0}>
        {props.children}
      </div>
    </div>
  );
}
