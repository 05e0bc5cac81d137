import { graphMoveText } from "../../../core/graph/graph-words.ts";
import type { JournalEntry } from "../../../core/journal/journal.ts";
import type { Json, JsonObject } from "../../../core/json.ts";
import { spentText } from "../../output/spent-text.ts";
import { countText } from "../../output/count-text.ts";
import { rangesText } from "../../output/ranges-text.ts";

/** One line of what an entry says. Kinds that people read often are put in words; the rest is shown as it is. */
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
      return words([body["step"], typeof body["session"] === "string" ? body["session"] : "(given up)"]);
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
    case "run.parked":
      return words([
        `on ${String(body["on"])}`,
        typeof body["until"] === "string" ? `until ${body["until"]}` : "",
        reasonOf(body["reason"]),
      ]);
    case "run.resumed":
      return "steps under way were lost";
    case "note":
      return words([body["text"]]);
    default:
      return factsOf(body);
  }
}

function graphText(value: Json | undefined): string {
  if (!isObject(value)) return "";
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
  return isObject(value) ? `→ ${words([value["action"], "by rule", value["rule"]])}` : "";
}

function spentOf(value: Json | undefined): string {
  if (!isObject(value)) return "";
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
  if (!isObject(value)) return "";
  if (value["kind"] === "issue") return `issue #${value["number"]}`;
  return value["kind"] === "task" ? quoted(value["text"]) : "";
}

function forkOf(value: Json | undefined): string {
  return isObject(value) && typeof value["id"] === "string" ? `forked from ${value["id"]}` : "";
}

/** "@1-40 beyond the newest 5 automatic; @44 older than 30 days": one clause for each reason. */
function dropsOf(drops: readonly Json[]): string {
  const reasons = new Map<string, number[]>();
  for (const drop of drops) {
    if (!isObject(drop) || typeof drop["sequence"] !== "number") return JSON.stringify(drops);
    const why = String(drop["why"]);
    reasons.set(why, [...(reasons.get(why) ?? []), drop["sequence"]]);
  }
  return [...reasons].map(([why, sequences]) => `@${rangesText(sequences)} ${why}`).join("; ");
}

function ownerOf(value: Json | undefined): string {
  return isObject(value) ? `${value["label"]} (pid ${value["pid"]} on ${value["host"]})` : "";
}

/** Bodies are open-ended: the facts in the order that they were written, without what is empty. */
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

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
