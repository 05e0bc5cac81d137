/** The `events` command: prints the journal of a run. */
import { graphMoveText } from "@holdfast/core/graph-state";
import type { JournalEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText, exactTime, rangesText, relativeTime, spentText } from "../output/quantities.ts";
import { renderTable } from "../output/table.ts";
import { displayWidth, escapeText, padEnd, truncate } from "../output/text.ts";
import { parseCount, parseLimit } from "../parse-arguments.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "events",
  summary: "show what happened in a run (its journal)",
  details: [
    "The journal is the append-only record of everything that happened in a run, oldest first. Without --after it prints the last entries.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id or an issue number; default the run of this worktree, or the newest one",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  flags: {
    follow: { type: "boolean", short: "f", about: "keep printing new entries until Ctrl+C" },
    after: { type: "text", value: "ENTRY", about: "start after this entry number" },
    limit: { type: "text", short: "n", value: "N", about: 'at most N, or "all" (default 50)' },
  },
  examples: [
    { line: "holdfast events", about: "the last 50 entries" },
    { line: "holdfast events fix-login --after 0 --limit all", about: "the whole journal" },
    { line: "holdfast events fix-login --follow --json", about: "stream one JSON line per entry" },
  ],
  reads: true,
  json: '{"run": {...}, "entries": [...]}; with --follow one JSON line for each entry.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const after = input.text("after");
  const limit = parseLimit(input.text("limit"), 50);
  const given = after === undefined ? undefined : parseCount("after", after);
  const holdfast = await shell.open({ create: false });
  const summary = await holdfast.resolveRun(input.operand(0));
  const start = given ?? (limit === undefined ? 0 : Math.max(0, summary.entries - limit));
  const entries = await readEntries(holdfast, { run: summary.id, after: start, limit });
  if (input.on("follow")) return follow(shell, holdfast, { run: summary.id, entries, after: start });
  const found = await holdfast.runWithStatus(summary.id);
  shell.print({
    json: () => ({ run: runJson(found), entries }),
    text: (page) => (entries.length === 0 ? "" : entriesText(entries, page)),
  });
  if (given === undefined && start > 0)
    shell.notify(
      `${countText(start, "earlier entry", "earlier entries")}: ${shell.talk.program} events ${summary.id} --after 0 --limit all`,
    );
  if (entries.length === 0) shell.notify(`Nothing in the journal of ${summary.id} after entry ${start}.`);
  return "done";
}

async function readEntries(
  holdfast: Holdfast,
  params: { readonly run: string; readonly after: number; readonly limit: number | undefined },
): Promise<readonly JournalEntry[]> {
  const handle = await holdfast.run(params.run);
  const entries: JournalEntry[] = [];
  const { after, limit } = params;
  for await (const entry of handle.log(limit === undefined ? { after } : { after, limit })) entries.push(entry);
  return entries;
}

/** The watch starts after the last entry shown, so that no entry is missed or shown twice. */
async function follow(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly entries: readonly JournalEntry[]; readonly after: number },
): Promise<Exit> {
  const show = (entry: JournalEntry): boolean =>
    shell.write(shell.json ? `${JSON.stringify(entry)}\n` : entryLine(entry, shell.page));
  if (!shell.json) shell.write(followHeader(shell.page));
  for (const entry of params.entries) {
    if (!show(entry)) return "done";
  }
  shell.notify(`Following ${params.run}; Ctrl+C stops.`);
  const after = params.entries.at(-1)?.entry ?? params.after;
  // The watch does not keep the process alive by itself, so this timer does.
  const alive = setInterval(() => {}, 60_000);
  try {
    for await (const entry of holdfast.store.watch({ run: params.run, after, signal: shell.signal })) {
      if (!show(entry)) return "done";
    }
  } finally {
    clearInterval(alive);
  }
  return "done";
}

export function entriesText(entries: readonly JournalEntry[], page: Page): string {
  const columns = [
    { title: "ENTRY", align: "right" },
    { title: "WHEN", expendable: 1 },
    { title: "KIND" },
    { title: "WHAT", shrinkTo: 16 },
  ] as const;
  const rows = entries.map((entry) => [
    { text: String(entry.entry) },
    { text: relativeTime(entry.at, page.now), style: "dim" } as const,
    { text: entry.kind, style: "bold" } as const,
    { text: entrySummary(entry) },
  ]);
  return renderTable({ columns, rows }, page);
}

/**
 * Formats one line at a time. Column widths are fixed because later lines are unknown, and times are exact because
 * "just now" would soon be false.
 */
export function entryLine(entry: JournalEntry, page: Page): string {
  const time = exactTime(entry.at, page.offset).slice(0, 19);
  const head = `${String(entry.entry).padStart(5)}  ${paint(page, "dim", time)}  `;
  const kind = escapeText(entry.kind);
  const room = page.width - 28 - Math.max(KIND, displayWidth(kind)) - 2;
  const body = truncate(escapeText(entrySummary(entry)), Math.max(10, room));
  return `${head}${paint(page, "bold", kind)}${body === "" ? "" : `${padEnd("", KIND - displayWidth(kind))}  ${body}`}\n`;
}

function followHeader(page: Page): string {
  return `${paint(page, "dim", `ENTRY  ${padEnd("WHEN", 19)}  ${padEnd("KIND", KIND)}  WHAT`)}\n`;
}

/** The longest of the usual kinds; a longer kind shifts only its own line. */
const KIND = "checkpoint.dropped".length;

/** Summarises an entry in one line. Common kinds are put into words; the others show their fields. */
export function entrySummary(entry: Pick<JournalEntry, "kind" | "body">): string {
  const { kind, body } = entry;
  switch (kind) {
    case "run.created":
      return words([body["workflow"], workOf(body["work"]), forkOf(body["forkedFrom"])]);
    case "checkpoint":
      return words([`@${body["sequence"]}`, body["trigger"], quoted(body["name"]), stageOf(body["stage"])]);
    case "checkpoint.dropped":
      return Array.isArray(body["drops"]) ? dropsOf(body["drops"]) : factsOf(body);
    case "lease.taken":
    case "lease.released":
      return ownerOf(body["owner"]);
    case "tag.added":
      return words([body["name"], `→ @${body["sequence"]}`]);
    case "stage.entered":
      return placeOf(body);
    case "stage.ended": {
      const next = typeof body["next"] === "string" ? ` → ${body["next"]}` : "";
      const score = typeof body["score"] === "number" ? ` (score ${body["score"]})` : "";
      return `${words([body["stage"]])}: ${words([body["event"]])}${score}${next} ${reasonOf(body["reason"])}`.trimEnd();
    }
    case "step.started":
      return words([body["step"], body["files"] === true ? "(changes files)" : ""]);
    case "step.finished":
      return words([body["step"], body["recorded"] === true ? "(recorded)" : spentOf(body["spent"])]);
    case "graph.set":
      return graphText(body["graph"]);
    case "graph.moved":
      return Array.isArray(body["events"]) ? body["events"].map(graphMoveText).join(", ") : factsOf(body);
    case "step.session":
      return words([body["step"], typeof body["session"] === "string" ? body["session"] : "(lost)"]);
    case "step.adopted":
      return words([body["step"], "(had finished)"]);
    case "step.interrupted":
    case "step.lost":
      return words([body["step"], spentOf(body["spent"])]);
    case "step.failed":
      return words([body["step"], verdictOf(body["verdict"]), spentOf(body["spent"]), reasonOf(body["reason"])]);
    case "effect.intended":
      return words([body["key"], body["kind"], `on ${String(body["target"])}`]);
    case "effect.settled":
      return words([
        body["key"],
        body["adopted"] === true ? "was done already" : body["outcome"],
        reasonOf(body["reason"]),
      ]);
    case "effect.unknown":
      return words([body["key"], reasonOf(body["reason"])]);
    case "effect.undone":
      return words([
        body["key"],
        body["adopted"] === true ? "was undone already" : body["outcome"],
        reasonOf(body["reason"]),
      ]);
    case "run.waiting":
      return words([
        `for ${String(body["for"])}`,
        typeof body["until"] === "string" ? `until ${body["until"]}` : "",
        reasonOf(body["reason"]),
      ]);
    case "run.paused":
      return reasonOf(body["reason"]);
    case "run.resumed":
      return "running steps were lost";
    case "note":
      return words([body["text"]]);
    default:
      return factsOf(body);
  }
}

function graphText(value: Json | undefined): string {
  if (!isJsonObject(value)) return "";
  const count = Array.isArray(value["nodes"]) ? value["nodes"].length : 0;
  return words([value["id"], `(${countText(count, "node")})`]);
}

function placeOf(body: JsonObject): string {
  const { stage, iteration } = body;
  return words([stage, typeof iteration === "number" && iteration > 0 ? `#${iteration}` : ""]);
}

function reasonOf(value: Json | undefined): string {
  return typeof value === "string" && value !== "" ? `(${value})` : "";
}

function verdictOf(value: Json | undefined): string {
  return isJsonObject(value) ? `→ ${words([value["action"], "by rule", value["rule"]])}` : "";
}

function spentOf(value: Json | undefined): string {
  if (!isJsonObject(value)) return "";
  const { tokens, microUsd, milliseconds, unpriced, uncounted } = value;
  if (typeof tokens !== "number" || typeof microUsd !== "number" || typeof milliseconds !== "number") return "";
  const unknown = {
    ...(typeof unpriced === "number" ? { unpriced } : {}),
    ...(typeof uncounted === "number" ? { uncounted } : {}),
  };
  const text = spentText({ tokens, microUsd, milliseconds, ...unknown });
  return text === null ? "" : `(${text})`;
}

function words(parts: readonly (Json | undefined)[]): string {
  return parts.filter((part) => typeof part === "string" && part !== "").join(" ");
}

function quoted(value: Json | undefined): string {
  return typeof value === "string" ? JSON.stringify(value) : "";
}

function stageOf(value: Json | undefined): string {
  return typeof value === "string" && value !== "none" ? `in ${value}` : "";
}

function workOf(value: Json | undefined): string {
  if (!isJsonObject(value)) return "";
  if (value["kind"] === "issue") return `issue #${value["number"]}`;
  return value["kind"] === "task" ? quoted(value["text"]) : "";
}

function forkOf(value: Json | undefined): string {
  return isJsonObject(value) && typeof value["id"] === "string" ? `forked from ${value["id"]}` : "";
}

/** "@1-40 beyond the newest 5 automatic; @44 older than 30 days": one clause for each reason. */
function dropsOf(drops: readonly Json[]): string {
  const reasons = new Map<string, number[]>();
  for (const drop of drops) {
    if (!isJsonObject(drop) || typeof drop["sequence"] !== "number") return JSON.stringify(drops);
    const why = String(drop["why"]);
    reasons.set(why, [...(reasons.get(why) ?? []), drop["sequence"]]);
  }
  return [...reasons].map(([why, sequences]) => `@${rangesText(sequences)} ${why}`).join("; ");
}

function ownerOf(value: Json | undefined): string {
  return isJsonObject(value) ? `${value["label"]} (pid ${value["pid"]} on ${value["host"]})` : "";
}

/** Shows the fields of an arbitrary body in their order, without empty ones. */
function factsOf(body: JsonObject): string {
  return Object.entries(body)
    .map(([key, value]) => ({ key, text: factText(value) }))
    .filter(({ text }) => text !== "")
    .map(({ key, text }) => `${key}=${text}`)
    .join(" ");
}

function factText(value: Json): string {
  if (value === null) return "";
  if (typeof value === "string")
    return DIGEST.test(value) ? value.slice(0, 8) : SPACED.test(value) ? JSON.stringify(value) : value;
  return typeof value === "object" && Object.keys(value).length === 0 ? "" : JSON.stringify(value);
}

const DIGEST = /^[0-9a-f]{40,64}$/;
const SPACED = /[\s"]/;
