// The command palette: pages, runs, checkpoints, the actions of the run that is open, and settings. Typed addresses work as they are.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckpointPage, RunPage, RunsPage } from "./api.ts";
import { Dialog } from "./dialog.tsx";
import { keysShown } from "./keys.tsx";
import { frozen, setFrozen, useCheckpoints, useQuery } from "./live.ts";
import { Text, copy, go, pageCommand, route } from "./parts.tsx";
import { askPlan } from "./plan-sheet.tsx";
import { NO_FILTER, type Route, checkpointRoute, parsePoint, runRoute } from "./router.ts";
import { runsPath } from "./rows.ts";
import { marked, theme } from "./store.ts";
import { matchScore, stageWord } from "./words.ts";

interface Item {
  readonly title: string;
  readonly about: string;
  readonly run: () => void;
}

const MOST = 12;

export default function Palette({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const here = route.get();
  const open = "run" in here && here.run !== null ? here.run : null;
  const runs = useQuery<RunsPage>("/api/runs");
  const page = useQuery<RunPage>(open === null ? null : `/api/runs/${open}`);
  const checkpoint = useQuery<CheckpointPage>(
    here.page === "checkpoint" ? `/api/runs/${here.run}/checkpoints/${here.sequence}` : null,
  );
  const checkpoints = useCheckpoints(open);
  const [query, setQuery] = useState("");
  // Those that are too old for the list.
  const older = useQuery<RunsPage>(query.trim() === "" ? null : runsPath({ ...NO_FILTER, q: query.trim() }, MOST));
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  const to = (title: string, about: string, target: Route): Item => ({ title, about, run: () => go(target) });
  const known = [...(runs.data?.rows ?? []), ...(older.data?.rows ?? [])];
  const rows = [...new Map(known.map((row) => [row.key, row])).values()];
  const items: readonly Item[] = [
    ...[...(checkpoint.data?.actions ?? []), ...(page.data?.actions ?? [])]
      .filter(({ why }) => why === null)
      .map(({ label, action }) => ({ title: `${label}…`, about: open ?? "", run: () => askPlan(action) })),
    ...rows.map(({ key, title, statusWord }) => to(title, `${key} · ${statusWord}`, runRoute(key))),
    to("Needs you", "page", { page: "inbox", run: null }),
    to("Runs", "page", { page: "runs", filter: NO_FILTER }),
    to("Compare", "page", { page: "compare", runs: marked.get() }),
    ...(open === null
      ? []
      : [
          to("Report", open, { page: "report", run: open }),
          ...(["changes", "conversation", "journal", "effects", "checks", "cost"] as const).map((tab) =>
            to(tab.charAt(0).toUpperCase() + tab.slice(1), open, runRoute(open, tab)),
          ),
        ]),
    ...checkpoints.map(({ sequence, stage, iteration, tags }) =>
      to(
        `@${sequence} ${stageWord(stage, iteration)} ${tags.join(" ")}`,
        open ?? "",
        checkpointRoute(open ?? "", sequence),
      ),
    ),
    { title: "Copy the command of this page", about: pageCommand.get(), run: () => void copy(pageCommand.get()) },
    {
      title: frozen.get() ? "Continue live updates" : "Freeze live updates",
      about: "F",
      run: () => setFrozen(!frozen.get()),
    },
    ...["auto", "light", "dark"].map((name) => ({
      title: `Theme: ${name}`,
      about: "setting",
      run: () => theme.set(name),
    })),
    { title: "Keys", about: "?", run: () => keysShown.set(true) },
  ];
  const typed = addressRoute(
    query,
    rows.map(({ key }) => key),
    open,
  );
  const found = [
    ...(typed === null ? [] : [to(`Open ${query.trim()}`, "address", typed)]),
    ...items
      .map((item, index) => ({ item, index, score: matchScore(query, `${item.title} ${item.about}`) }))
      .filter(({ score }) => score !== null)
      .toSorted((a, b) => (b.score ?? 0) - (a.score ?? 0) || a.index - b.index)
      .map(({ item }) => item),
  ].slice(0, MOST);
  const chosen = Math.min(at, Math.max(0, found.length - 1));
  const run = (item: Item | undefined): void => {
    if (item === undefined) return;
    onClose();
    // The dialog gives the focus back first.
    setTimeout(item.run);
  };
  return (
    <Dialog
      label="Search or run a command"
      class="palette"
      onClose={onClose}
      onKeyDown={(event) => {
        const by: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };
        const step = by[event.key];
        if (event.key === "Enter") {
          event.preventDefault();
          run(found[chosen]);
        }
        if (step === undefined) return;
        event.preventDefault();
        setAt((chosen + step + found.length) % Math.max(1, found.length));
      }}
    >
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search or run a command"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length === 0 ? undefined : `palette-${chosen}`}
        placeholder="A run, a checkpoint such as issue-42@7, or a command"
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="Results">
        {found.map((item, index) => (
          <li
            key={`${item.title} ${item.about}`}
            id={`palette-${index}`}
            role="option"
            class="apart"
            aria-selected={index === chosen}
            onClick={() => run(item)}
            onPointerMove={() => setAt(index)}
          >
            <Text as="span">{item.title}</Text>
            <Text class="meta">{item.about}</Text>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p class="meta palette-none">Nothing found.</p> : null}
    </Dialog>
  );
}

/** The page of a typed address: `issue-42@7`, `issue-42@5..9`, `@7` of the open run. Null: it is none. */
function addressRoute(text: string, keys: readonly string[], open: string | null): Route | null {
  const [, name = "", from = "", until] = /^([\w./~-]*)@([\w]+)(?:\.\.@?(\w+))?$/.exec(text.trim()) ?? [];
  const known = open === null ? keys : [open, ...keys];
  const key = name === "" ? open : (known.find((one) => one === name || one.endsWith(`/${name}`)) ?? null);
  const a = parsePoint(from);
  if (key === null || key === undefined || a === null) return null;
  if (until === undefined) return typeof a === "number" ? checkpointRoute(key, a) : null;
  const b = parsePoint(until);
  return b === null ? null : { ...runRoute(key, "changes"), between: [a, b] };
}
