// The frame around every page: navigation, connection, theme, and the dialogs that open from anywhere.
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Boot, Inbox, LiveEvent } from "./api.ts";
import alertIcon from "./icon-alert.svg";
import plainIcon from "./icon.svg";
import { codeRefused, session } from "./client.ts";
import { InboxPage } from "./inbox.tsx";
import { KeysSheet, keysShown, startKeys, useKeys } from "./keys.tsx";
import { connection, frozen, setFrozen, useQuery } from "./live.ts";
import {
  A,
  Command,
  Heading,
  Icon,
  IconButton,
  ProblemCard,
  Skeleton,
  copy,
  go,
  pageCommand,
  route,
  say,
} from "./parts.tsx";
import { PlanSheet, ResultStrip } from "./plan-sheet.tsx";
import { type At, NO_FILTER, type Route } from "./router.ts";
import { openItems } from "./rows.ts";
import { RunsPageView } from "./runs.tsx";
import { announcement, later, marked, openTitle, paletteShown, programs, theme, useStore } from "./store.ts";
import { clock } from "./words.ts";

export function Layout(): JSX.Element {
  const { kind } = useStore(session);
  const here = useStore(route);
  const inbox = useQuery<Inbox>("/api/inbox", ["runs"], followInbox);
  const boot = useQuery<Boot>("/api/boot", [], (data) => data);
  const waiting = openItems(inbox.data?.items ?? [], useStore(later)).length;
  useEffect(startKeys, []);
  useKeys({
    "ctrl+k": () => paletteShown.set(true),
    "?": () => keysShown.set(true),
    "g i": () => go({ page: "inbox", run: null }),
    "g r": () => go({ page: "runs", filter: NO_FILTER }),
    "g c": () => go({ page: "compare", runs: marked.get() }),
    ".": () => void copy(pageCommand.get() || "holdfast list"),
    F: () => freeze(),
  });
  useEffect(() => {
    if (boot.data !== null) programs.set(new Map(boot.data.repositories.map(({ key, program }) => [key, program])));
  }, [boot.data]);
  useTitle(here, waiting);
  useFocusOnNewPage(here);
  if (kind === "none" && boot.data === null) return <NoSession />;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Top here={here} waiting={waiting} readOnly={boot.data?.readOnly ?? false} />
      <main id="main" tabIndex={-1}>
        {kind === "none" ? <SessionOver /> : null}
        <Page here={here} inbox={inbox.data} waiting={waiting} boot={boot.data} />
      </main>
      <ResultStrip />
      <PlanSheet />
      <KeysSheet />
      <LazyPalette />
      <Announcer />
    </>
  );
}

function followInbox(data: Inbox, event: LiveEvent): Inbox | "again" {
  if (event.event !== "run" && event.event !== "removed") return data;
  const known = data.items.find(({ row }) => row.key === event.data.key)?.row;
  if (event.event === "removed") return known === undefined ? data : "again";
  const { group, run } = event.data;
  const same = known === undefined ? group !== "you" : known.group === group && known.run.entries === run.entries;
  return same ? data : "again";
}

function Top(props: { readonly here: Route; readonly waiting: number; readonly readOnly: boolean }): JSX.Element {
  const { here, waiting } = props;
  const chosen = useStore(theme);
  const current = (page: Route["page"]): "page" | undefined => (here.page === page ? "page" : undefined);
  const themes = ["auto", "light", "dark"];
  const nextTheme = themes[(themes.indexOf(chosen) + 1) % themes.length] ?? "auto";
  return (
    <header class="top">
      <A to={{ page: "home" }} class="brand">
        <Icon name="anchor" />
        <span>Holdfast</span>
      </A>
      <nav class="nav" aria-label="Pages">
        <A to={{ page: "inbox", run: null }} aria-current={current("inbox")}>
          Needs you
          {waiting > 0 ? <span class="count num tone-you">{waiting}</span> : null}
        </A>
        <A to={{ page: "runs", filter: NO_FILTER }} aria-current={current("runs")}>
          Runs
        </A>
        <A to={{ page: "compare", runs: marked.get() }} aria-current={current("compare")}>
          Compare
        </A>
      </nav>
      <button type="button" class="search-button" aria-keyshortcuts="Control+K" onClick={() => paletteShown.set(true)}>
        <Icon name="search" />
        <span>Search or run a command</span>
        <kbd>Ctrl K</kbd>
      </button>
      {props.readOnly ? <span class="meta">read-only</span> : null}
      <Live />
      <IconButton
        icon="theme"
        class="top-wide"
        label={`Theme: ${chosen}. Change to ${nextTheme}.`}
        title={`Theme: ${chosen}`}
        onClick={() => theme.set(nextTheme)}
      />
      <IconButton icon="help" class="top-wide" label="Keys" title="Keys (?)" onClick={() => keysShown.set(true)} />
      <details class="menu top-more">
        <summary class="icon-button" aria-label="More">
          <Icon name="more" />
        </summary>
        <div class="menu-body">
          <button type="button" onClick={() => theme.set(nextTheme)}>
            Theme: {chosen}
          </button>
          <button type="button" onClick={() => keysShown.set(true)}>
            Keys
          </button>
        </div>
      </details>
    </header>
  );
}

function Live(): JSX.Element {
  const state = useStore(connection);
  const isFrozen = useStore(frozen);
  if (isFrozen)
    return (
      <button type="button" class="live live-old" onClick={freeze} title="Continue live updates (F)">
        <span class="live-word">frozen</span>
      </button>
    );
  if (state.kind === "live")
    return (
      <span class="live" data-state="live" title="Updates arrive as they happen">
        <span class="live-word">live</span>
      </span>
    );
  return (
    <span class="live live-old" data-state="old" role="status">
      <span class="live-word">reconnecting, as of {clock(new Date(state.since).toISOString(), true)}</span>
    </span>
  );
}

function freeze(): void {
  setFrozen(!frozen.get());
  say(frozen.get() ? "Live updates stopped" : "Live updates continue");
}

function Page(props: {
  readonly here: Route;
  readonly inbox: Inbox | null;
  readonly waiting: number;
  readonly boot: Boot | null;
}): JSX.Element {
  const { here, inbox, waiting, boot } = props;
  switch (here.page) {
    case "home":
      if (inbox === null) return <Skeleton />;
      return waiting > 0 ? <InboxPage run={null} inbox={inbox} /> : <RunsPageView filter={NO_FILTER} boot={boot} />;
    case "inbox":
      return inbox === null ? <Skeleton /> : <InboxPage run={here.run} inbox={inbox} />;
    case "runs":
      return <RunsPageView filter={here.filter} boot={boot} />;
    case "run":
      return <Lazy key={`run ${here.run}`} load={loadRun} here={here} />;
    case "checkpoint":
      return <Lazy key={`checkpoint ${here.run}`} load={loadCheckpoint} here={here} />;
    case "compare":
      return <Lazy key="compare" load={loadCompare} here={here} />;
    case "report":
      return <Lazy key={`report ${here.run}`} load={loadReport} here={here} />;
    case "unknown":
      return <Unknown />;
  }
}

const loadRun = (): Promise<Loaded<At<"run">>> => import("./run.tsx");
const loadCheckpoint = (): Promise<Loaded<At<"checkpoint">>> => import("./checkpoint.tsx");
const loadCompare = (): Promise<Loaded<At<"compare">>> => import("./compare.tsx");
const loadReport = (): Promise<Loaded<At<"report">>> => import("./report.tsx");

interface Loaded<R> {
  readonly default: ComponentType<{ readonly here: R }>;
}

/** A component that is loaded when it is first wanted; null: it has not arrived. */
function useLoaded<P>(load: () => Promise<{ readonly default: ComponentType<P> }>, wanted: boolean) {
  const [Part, setPart] = useState<ComponentType<P> | null>(null);
  useEffect(() => {
    if (wanted) void load().then((loaded) => setPart(() => loaded.default));
  }, [wanted]);
  return Part;
}

/** A page that is loaded when it is first shown. Its key has the page, so that no page gets the address of another. */
function Lazy<R>(props: { readonly load: () => Promise<Loaded<R>>; readonly here: R }): JSX.Element {
  const Part = useLoaded(props.load, true);
  return Part === null ? <Skeleton rows={8} /> : <Part here={props.here} />;
}

function LazyPalette(): JSX.Element | null {
  const shown = useStore(paletteShown);
  const Part = useLoaded(() => import("./palette.tsx"), shown);
  return shown && Part !== null ? <Part onClose={() => paletteShown.set(false)} /> : null;
}

function Unknown(): JSX.Element {
  return (
    <>
      <Heading>No page at this address</Heading>
      <p>
        <A to={{ page: "runs", filter: NO_FILTER }}>All runs</A>
      </p>
    </>
  );
}

function NoSession(): JSX.Element {
  const refused = useStore(codeRefused);
  return (
    <main class="no-session spaced">
      <Heading>
        <Icon name="anchor" /> Holdfast
      </Heading>
      <p>
        {refused ? "This link was used already, or it expired." : "This browser has no session."} Run this command; it
        opens the page, and this tab continues by itself.
      </p>
      <Command text="holdfast ui" />
    </main>
  );
}

function SessionOver(): JSX.Element {
  return (
    <ProblemCard
      problem={{
        code: "NO_SESSION",
        message: "The server of this page was restarted.",
        hint: "Run this command. This tab continues by itself.",
        command: "holdfast ui",
      }}
    />
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function useTitle(here: Route, waiting: number): void {
  const open = useStore(openTitle);
  useEffect(() => {
    const names: Readonly<Record<Route["page"], string>> = {
      home: "",
      inbox: "Needs you",
      runs: "Runs",
      run: here.page === "run" ? `${open === "" ? "" : `${open} · `}${here.run}` : "",
      checkpoint: here.page === "checkpoint" ? `${here.run}@${here.sequence}` : "",
      compare: "Compare",
      report: here.page === "report" ? `Report of ${here.run}` : "",
      unknown: "",
    };
    const name = names[here.page];
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${name === "" ? "" : `${name} · `}Holdfast`;
    document
      .querySelector<HTMLLinkElement>("link[rel=icon]")
      ?.setAttribute("href", waiting > 0 ? alertIcon : plainIcon);
  }, [here, waiting, open]);
}

/** After a change of the page, a screen reader and the keyboard start at its heading. */
function useFocusOnNewPage(here: Route): void {
  const place = "run" in here ? `${here.page} ${here.run}` : here.page;
  const [first, setFirst] = useState(true);
  useEffect(() => {
    if (first) return setFirst(false);
    scrollTo(0, 0);
    const heading = document.querySelector<HTMLElement>("main h1");
    if (heading !== null) return heading.focus({ preventScroll: true });
    // The heading is not there yet, and takes the focus when it comes.
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  }, [place]);
}

function Announcer(): JSX.Element {
  return (
    <div class="sr-only" role="status" aria-live="polite">
      {useStore(announcement)}
    </div>
  );
}
