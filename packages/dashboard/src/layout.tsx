// The frame around every page: navigation, connection, theme, and the dialogs that open from anywhere.
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Boot, Inbox, LiveEvent } from "./api.ts";
import alertIcon from "./icon-alert.svg";
import plainIcon from "./icon.svg";
import { session } from "./client.ts";
import { InboxPage } from "./inbox.tsx";
import { KeysSheet, keysShown, startKeys, useKeys } from "./keys.tsx";
import { connection, frozen, setFrozen, useQuery } from "./live.ts";
import { A, Command, Icon, IconButton, ProblemCard, Skeleton, copy, go, pageCommand, route, say } from "./parts.tsx";
import { PlanSheet, ResultStrip } from "./plan-sheet.tsx";
import { NO_FILTER, type Route } from "./router.ts";
import { RunsPageView } from "./runs.tsx";
import { announcement, marked, paletteShown, theme, useStore } from "./store.ts";
import { clock } from "./words.ts";

export function Layout(): JSX.Element {
  const { kind } = useStore(session);
  const here = useStore(route);
  const inbox = useQuery<Inbox>("/api/inbox", ["runs"], followInbox);
  const boot = useQuery<Boot>("/api/boot", [], (data) => data);
  const waiting = inbox.data?.items.length ?? 0;
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
        <Page here={here} inbox={inbox.data} boot={boot.data} />
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
  if (event.event === "inbox") return event.data.count === data.items.length ? data : "again";
  if (event.event !== "run") return data;
  const item = data.items.find(({ row }) => row.key === event.data.key);
  const same = item === undefined ? event.data.group !== "you" : item.row.run.entries === event.data.run.entries;
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
        <A to={{ page: "compare", runs: marked.get() }} aria-current={current("compare")} class="nav-compare">
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

function Page(props: { readonly here: Route; readonly inbox: Inbox | null; readonly boot: Boot | null }): JSX.Element {
  const { here, inbox, boot } = props;
  switch (here.page) {
    case "home":
      if (inbox === null) return <Skeleton />;
      return inbox.items.length > 0 ? (
        <InboxPage run={null} inbox={inbox} />
      ) : (
        <RunsPageView filter={NO_FILTER} boot={boot} />
      );
    case "inbox":
      return inbox === null ? <Skeleton /> : <InboxPage run={here.run} inbox={inbox} />;
    case "runs":
      return <RunsPageView filter={here.filter} boot={boot} />;
    case "run":
      return <Lazy key={`run ${here.run}`} load={loadRun} props={{ here }} />;
    case "checkpoint":
      return <Lazy key={`checkpoint ${here.run}`} load={loadCheckpoint} props={{ here }} />;
    case "compare":
      return <Lazy key="compare" load={loadCompare} props={{ here }} />;
    case "report":
      return <Lazy key={`report ${here.run}`} load={loadReport} props={{ here }} />;
    case "unknown":
      return <Unknown />;
  }
}

type At<P extends Route["page"]> = Extract<Route, { readonly page: P }>;
const loadRun = (): Promise<Loaded<At<"run">>> => import("./run.tsx");
const loadCheckpoint = (): Promise<Loaded<At<"checkpoint">>> => import("./checkpoint.tsx");
const loadCompare = (): Promise<Loaded<At<"compare">>> => import("./compare.tsx");
const loadReport = (): Promise<Loaded<At<"report">>> => import("./report.tsx");

interface Loaded<R> {
  readonly default: ComponentType<{ readonly here: R }>;
}

/** A page that is loaded when it is first shown. Its key has the page, so that no page gets the address of another. */
function Lazy<R>({
  load,
  props,
}: {
  readonly load: () => Promise<Loaded<R>>;
  readonly props: { readonly here: R };
}): JSX.Element {
  const [Part, setPart] = useState<ComponentType<{ readonly here: R }> | null>(null);
  useEffect(() => {
    let current = true;
    void load().then((loaded) => current && setPart(() => loaded.default));
    return () => {
      current = false;
    };
  }, [load]);
  return Part === null ? <Skeleton rows={8} /> : <Part {...props} />;
}

function LazyPalette(): JSX.Element | null {
  const shown = useStore(paletteShown);
  const [Part, setPart] = useState<ComponentType<{ readonly onClose: () => void }> | null>(null);
  useEffect(() => {
    if (shown) void import("./palette.tsx").then((loaded) => setPart(() => loaded.default));
  }, [shown]);
  return shown && Part !== null ? <Part onClose={() => paletteShown.set(false)} /> : null;
}

function Unknown(): JSX.Element {
  return (
    <>
      <h1 tabIndex={-1}>No page at this address</h1>
      <p>
        <A to={{ page: "runs", filter: NO_FILTER }}>All runs</A>
      </p>
    </>
  );
}

function NoSession(): JSX.Element {
  return (
    <main class="no-session spaced">
      <h1 tabIndex={-1}>
        <Icon name="anchor" /> Holdfast
      </h1>
      <p>This browser has no session. Run this command; it opens the page, and this tab continues by itself.</p>
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
  useEffect(() => {
    const names: Readonly<Record<Route["page"], string>> = {
      home: "",
      inbox: "Needs you",
      runs: "Runs",
      run: "run" in here && here.run !== null ? here.run : "",
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
  }, [here, waiting]);
}

/** After a change of the page, a screen reader and the keyboard start at its heading. */
function useFocusOnNewPage(here: Route): void {
  const place = "run" in here ? `${here.page} ${here.run}` : here.page;
  const [first, setFirst] = useState(true);
  useEffect(() => {
    if (first) return setFirst(false);
    scrollTo(0, 0);
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [place]);
}

function Announcer(): JSX.Element {
  return (
    <div class="sr-only" role="status" aria-live="polite">
      {useStore(announcement)}
    </div>
  );
}
