// The addresses of the page. An address is the whole state of what is shown: it can be reloaded, bookmarked and opened by the CLI.

export const TABS = [
  "now",
  "changes",
  "conversation",
  "journal",
  "effects",
  "checks",
  "cost",
  "graph",
  "team",
] as const satisfies readonly string[];
export type Tab = (typeof TABS)[number];

export const PLANES = ["files", "state", "conversation", "effects"] as const satisfies readonly string[];
export type Plane = (typeof PLANES)[number];

/** A checkpoint's sequence, or the state before the first or after the last one. */
export type Point = number | "base" | "worktree";

export interface Filter {
  readonly repo: string;
  readonly status: string;
  readonly workflow: string;
  readonly q: string;
}
export const NO_FILTER: Filter = { repo: "", status: "", workflow: "", q: "" };

export type Route =
  | { readonly page: "home" }
  | { readonly page: "inbox"; readonly run: string | null }
  | { readonly page: "runs"; readonly filter: Filter }
  | {
      readonly page: "run";
      readonly run: string;
      readonly tab: Tab;
      /** What the tab `changes` compares. Null: the defaults. */
      readonly between: readonly [Point, Point] | null;
      readonly file: string | null;
      /** The entry that the tab `journal` opens. */
      readonly entry: number | null;
    }
  | {
      readonly page: "checkpoint";
      readonly run: string;
      readonly sequence: number;
      readonly plane: Plane;
      /** Null: its parent. */
      readonly against: Point | null;
      readonly file: string | null;
    }
  /** Addresses such as `shop/issue-42` and `shop/issue-42@7`. */
  | { readonly page: "compare"; readonly runs: readonly string[] }
  | { readonly page: "report"; readonly run: string }
  | { readonly page: "unknown"; readonly path: string };

/** The address of one kind of page. */
export type At<P extends Route["page"]> = Extract<Route, { readonly page: P }>;

export function parseRoute(path: string, search: string): Route {
  const unknown: Route = { page: "unknown", path };
  const query = new URLSearchParams(search);
  const parts = decode(path);
  if (parts === null) return unknown;
  const [page, ...rest] = parts;
  switch (page) {
    case undefined:
      return { page: "home" };
    case "inbox":
      return rest.length === 0 || rest.length === 2 ? { page: "inbox", run: rest.join("/") || null } : unknown;
    case "runs":
      return rest.length === 0 ? { page: "runs", filter: filterOf(query) } : unknown;
    case "compare":
      return rest.length === 0 ? { page: "compare", runs: comparedRuns(query) } : unknown;
    case "r":
      return parseRun(rest, query) ?? unknown;
    default:
      return unknown;
  }
}

export function hrefOf(route: Route): string {
  switch (route.page) {
    case "home":
      return "/";
    case "inbox":
      return route.run === null ? "/inbox" : `/inbox/${encode(route.run)}`;
    case "runs":
      return withQuery("/runs", Object.entries(route.filter));
    case "run":
      return withQuery(`${runHref(route.run)}${tabPath(route)}`, [["file", route.file ?? ""]]);
    case "checkpoint":
      return withQuery(`${runHref(route.run)}/@${route.sequence}`, [
        ["plane", route.plane === "files" ? "" : route.plane],
        ["against", route.against === null ? "" : String(route.against)],
        ["file", route.file ?? ""],
      ]);
    case "compare":
      return withQuery(
        "/compare",
        // A ninth run has no letter; the server compares at most eight.
        route.runs.map((run, index) => [LETTERS[index] ?? "r", run]),
      );
    case "report":
      return `${runHref(route.run)}/report`;
    case "unknown":
      return route.path;
  }
}

export function runRoute(run: string, tab: Tab = "now"): At<"run"> {
  return { page: "run", run, tab, between: null, file: null, entry: null };
}

export function checkpointRoute(run: string, sequence: number): At<"checkpoint"> {
  return { page: "checkpoint", run, sequence, plane: "files", against: null, file: null };
}

/** `shop/issue-42@5` for the server's `diff`. */
export function addressOf(run: string, point: Point): string {
  return `${run}@${point}`;
}

export function parsePoint(text: string): Point | null {
  if (text === "base" || text === "worktree") return text;
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
}

function parseRun(parts: readonly string[], query: URLSearchParams): Route | null {
  const [repository = "", id = "", last, number, ...more] = parts;
  if (repository === "" || id === "" || more.length > 0) return null;
  const run = `${repository}/${id}`;
  const file = query.get("file");
  const entry = number === undefined ? null : parsePoint(number);
  if (last === "entry") return typeof entry === "number" ? { ...runRoute(run, "journal"), entry } : null;
  if (number !== undefined) return null;
  if (last === undefined) return { ...runRoute(run), file };
  if (last === "report") return { page: "report", run };
  const tab = TABS.find((one) => one === last);
  if (tab !== undefined) return tab === "now" ? null : { ...runRoute(run, tab), file };
  if (!last.startsWith("@")) return null;
  const [from, to, ...others] = last
    .slice(1)
    .split("..")
    .map((text) => parsePoint(text));
  if (from === null || from === undefined || to === null || others.length > 0) return null;
  if (to !== undefined) return { ...runRoute(run, "changes"), between: [from, to], file };
  if (typeof from === "string") return null;
  const plane = PLANES.find((one) => one === query.get("plane")) ?? "files";
  return { page: "checkpoint", run, sequence: from, plane, against: parsePoint(query.get("against") ?? ""), file };
}

function tabPath({ tab, between, entry }: At<"run">): string {
  if (tab === "journal" && entry !== null) return `/entry/${entry}`;
  if (tab === "changes" && between !== null) return `/@${between[0]}..${between[1]}`;
  return tab === "now" ? "" : `/${tab}`;
}

const LETTERS = "abcdefgh";

/** `?a=shop/issue-42&b=shop/other`. The form `?r=…&r=…` has no limit. */
function comparedRuns(query: URLSearchParams): readonly string[] {
  return [...[...LETTERS].flatMap((letter) => query.getAll(letter)), ...query.getAll("r")];
}

function filterOf(query: URLSearchParams): Filter {
  const get = (name: string): string => query.get(name) ?? "";
  return { repo: get("repo"), status: get("status"), workflow: get("workflow"), q: get("q") };
}

function runHref(run: string): string {
  return `/r/${encode(run)}`;
}

function encode(run: string): string {
  return run.split("/").map(encodeURIComponent).join("/");
}

/** Null: it has a broken escape. */
function decode(path: string): readonly string[] | null {
  try {
    return path
      .split("/")
      .filter((part) => part !== "")
      .map(decodeURIComponent);
  } catch {
    return null;
  }
}

function withQuery(path: string, pairs: readonly (readonly [string, string])[]): string {
  const query = new URLSearchParams(pairs.filter(([, value]) => value !== "").map(([name, value]) => [name, value]));
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}
