// The review stage of impl: the reviewer's prompt, the parsing of its scores, and the decision to pass or fail.

import { type Json, type JsonObject, isJsonArray, isJsonObject, parseObject } from "@holdfast/core/json";
import { counterOf } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import type { Fence } from "@holdfast/core/workflow";
import { issueText } from "../forge.ts";
import { expandTemplate } from "../prompts.ts";
import { OUTPUT_DIRECTORY, type Worktree, openWorktree, prettyJson } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import { DIMENSIONS, type Dimension, type ImplOptions } from "./options.ts";
import {
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type Issue,
  type Review,
  type Scores,
  conclude,
  requireSetup,
} from "./state.ts";
import { reviewFacts } from "./task-facts.ts";

const DIFF_BYTES = 200_000;

/** Scores the whole change since the base. A failed review becomes feedback for the next implementation prompt. */
export async function reviewStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { maxReviews, onMaxReviews, thresholds } = work.options;
  if (counterOf(position.attempts, "review") >= maxReviews) {
    const event = onMaxReviews === "proceed" ? "review_pass" : "fatal";
    const reason = `${maxReviews} reviews have failed, which is the limit${event === "fatal" ? "" : "; continuing without a review that passed"}`;
    if (event === "review_pass") return conclude(context, { event, reason, state, feedback: null });
    const stopped = { limit: "maxReviews", stage: "review", iteration: position.iteration } as const;
    return conclude(context, { event, reason, state: { ...state, stopped } });
  }
  const worktree = await openWorktree(work, context);
  const { iteration } = position;
  const { reply, text } = await askReviewer(work, context, worktree);
  const review = decideReview({ reply, thresholds, iteration });
  await worktree.outputs.write(outputFiles.reviewOutput(iteration), text);
  await worktree.outputs.write(outputFiles.review(iteration), prettyJson(reviewReport(review)));
  const failing = { gate: "review", detail: reviewFeedback(review, thresholds) };
  const reviews = [...state.reviews, review];
  const answer = reply.kind === "unreadable" ? await decideUnreadable(context, reply.why) : "rework";
  if (answer === "skip") {
    const reason = "Continuing without a review, as you decided";
    return conclude(context, { event: "review_pass", reason, state: { ...state, reviews }, feedback: null });
  }
  if (answer === "stop") {
    const reason = `Stopped by you: ${reviewReason(review, thresholds)}`;
    return conclude(context, { event: "fatal", reason, state: { ...state, reviews } });
  }
  return conclude(context, {
    event: review.pass ? "review_pass" : "review_fail",
    reason: reviewReason(review, thresholds),
    state: { ...state, reviews, failing: review.pass ? null : failing },
    feedback: review.pass ? null : failing.detail,
    score: review.score,
  });
}

/** Other work of the implementer does not make a reviewer readable, so the user decides before more calls are paid for. */
async function decideUnreadable(context: ImplContext, why: string): Promise<string> {
  return await context.decide({
    name: "unreadable-review",
    question: `The reviewer's reply could not be read, also when it was asked again: ${why}. A reviewer must reply with a JSON object of scores, which a plain command does not do by itself. Continue without a review (skip), let the implementer work again with the reply as feedback (rework), or stop?`,
    options: ["skip", "rework", "stop"],
  });
}

/** Asks once more if the reply is unreadable. After a second unreadable reply the user decides. */
async function askReviewer(
  work: ImplDependencies,
  context: ImplContext,
  worktree: Worktree,
): Promise<{ readonly reply: ReviewReply; readonly text: string }> {
  const first = await ask(work, context, worktree, { name: "reviewer", unreadable: null });
  if (first.reply.kind === "read") return first;
  const unreadable = { reply: first.text, why: first.reply.why };
  return await ask(work, context, worktree, { name: "reviewer-again", unreadable });
}

async function ask(
  { options }: ImplDependencies,
  context: ImplContext,
  { branch }: Worktree,
  params: { readonly name: string; readonly unreadable: { readonly reply: string; readonly why: string } | null },
): Promise<{ readonly reply: ReviewReply; readonly text: string }> {
  const { issue, base, templates } = requireSetup(context.state);
  const since = { from: base.commit, exclude: [OUTPUT_DIRECTORY] };
  const diff = await branch.diffSince({ ...since, maxBytes: DIFF_BYTES });
  const changed = (await branch.changedSince(since)).map(({ path }) => path);
  const report = await context.agent({
    name: params.name,
    title: "the agent reviews",
    role: "review",
    prompt: reviewPrompt({
      template: templates.review,
      issue,
      thresholds: options.thresholds,
      diff,
      changed,
      state: context.state,
      base: base.commit,
      unreadable: params.unreadable,
      fence: context.fence(params.name),
    }),
    model: options.reviewModel ?? options.implModel,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
    changesFiles: false,
    // A reviewer that failed has judged nothing, so the implementer has no reason to work again.
    mustAnswer: true,
  });
  if (report.outcome === "completed") return { reply: parseReviewReply(report.text), text: report.text };
  const why = `the reviewer failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`;
  return { reply: { kind: "unreadable", why, text: report.text }, text: report.text };
}

/** The reviewer sees the change, the issue, the gate's result and the summary, whose claims it checks; never the agent's chat. */
export function reviewPrompt(params: {
  readonly template: string;
  readonly issue: Issue;
  readonly thresholds: ImplOptions["thresholds"];
  readonly diff: { readonly text: string; readonly cut: boolean };
  /** Paths of the diff. */
  readonly changed: readonly string[];
  readonly state: Pick<ImplState, "gate" | "finalize">;
  readonly base: string;
  /** The first, unreadable reply if this is the second attempt; otherwise null. */
  readonly unreadable: { readonly reply: string; readonly why: string } | null;
  readonly fence: Fence;
}): string {
  const { issue, diff, unreadable, fence } = params;
  const text = expandTemplate(params.template, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_text: fence.data("issue", issueText(issue).trimEnd()),
    thresholds: thresholdsText(params.thresholds),
    ...reviewFacts(params.state, params.changed, fence),
    diff: fence.data("diff", diff.text),
    diff_note: diff.cut ? ` (its beginning; \`git diff ${params.base}\` shows all of it)` : "",
    retry_section:
      unreadable === null
        ? ""
        : `\nYour last reply could not be read: ${fence.data("error", unreadable.why)}. Reply with the JSON object alone this time. It was:\n${fence.data("your last reply", unreadable.reply.slice(0, REPLY_CHARACTERS).toWellFormed())}\n`,
  });
  return fence.prompt(text);
}

const REPLY_CHARACTERS = 4_000;

type ReviewReply =
  | {
      readonly kind: "read";
      readonly scores: Scores;
      readonly score: number;
      readonly findings: readonly string[];
      readonly suggestions: readonly string[];
    }
  /** An unreadable reply is neither a score of 50 nor a zero: the reviewer is asked again. */
  | { readonly kind: "unreadable"; readonly why: string; readonly text: string };

/**
 * Reads the verdict of a reviewer's reply: the whole reply as a JSON object, else its last fenced block, else an object
 * at its end that begins a line. A reviewer quotes the change, and the change can contain a verdict, so no other object
 * counts. Without a verdict, reads scores in prose.
 */
export function parseReviewReply(text: string): ReviewReply {
  const unreadable = (why: string): ReviewReply => ({ kind: "unreadable", why, text });
  if (text.length > MOST_CHARACTERS) return unreadable(`it is longer than ${MOST_CHARACTERS} characters`);
  const { fenced, prose } = splitFences(text);
  const object = parseObject(text) ?? parseObject(fenced) ?? lastObject(prose);
  const scores = object === null ? null : readScores(object);
  if (object !== null && scores?.kind === "read") {
    return {
      kind: "read",
      scores: scores.scores,
      score: overall(object, scores.scores),
      findings: readLines(object["findings"]),
      suggestions: readLines(object["suggestions"]),
    };
  }
  const inProse = readProse(text, prose);
  if (typeof inProse !== "string") return inProse;
  if (inProse !== "") return unreadable(inProse);
  if (scores?.kind === "missing") return unreadable(`it has no usable score for ${scores.missing.join(", ")}`);
  return unreadable("there is no JSON object at its end or in its last fenced block, and no line with a score");
}

/** No review is longer. The time to read one is linear. */
const MOST_CHARACTERS = 1_000_000;

/**
 * The last fenced block if it is JSON by its name or has no name, else "", and the lines outside all blocks. A block that
 * is not closed ends with the text.
 */
function splitFences(text: string): { readonly fenced: string; readonly prose: string } {
  const prose: string[] = [];
  let fence: string | null = null;
  let last: { readonly name: string; readonly lines: string[] } = { name: "", lines: [] };
  for (const line of text.split(/\r?\n/)) {
    const [, mark, name = ""] = /^[ \t]*(```|~~~)[ \t]*(\w*)/.exec(line) ?? [];
    if (fence === null && mark !== undefined) {
      fence = mark;
      last = { name, lines: [] };
    } else if (fence === null) prose.push(line);
    else if (mark === fence) fence = null;
    else last.lines.push(line);
  }
  return { fenced: /^(json)?$/i.test(last.name) ? last.lines.join("\n") : "", prose: prose.join("\n") };
}

/** The object that ends the text and begins a line. */
function lastObject(text: string): JsonObject | null {
  const lines = text.split("\n");
  const from = lines.findLastIndex((line) => line.startsWith("{"));
  return from === -1 ? null : parseObject(lines.slice(from).join("\n"));
}

/**
 * Reads lines such as `Score: 69/100` or `- **Style**: 9/10`. A dimension without a line gets the overall score. The
 * whole text becomes one finding, so that the implementer gets the reviewer's words. Returns why it cannot be read; ""
 * if no line has a score.
 */
function readProse(text: string, prose: string): ReviewReply | string {
  const found = new Map<Dimension | "overall", number>();
  for (const { name, score } of proseScores(prose)) {
    if ((found.get(name) ?? score) !== score) return `it has two different scores for ${name}`;
    found.set(name, score);
  }
  if (found.size === 0) return "";
  const total = found.get("overall");
  const [faithful, style, docs, cornerCases] = DIMENSIONS.map((dimension) => found.get(dimension) ?? total);
  if (faithful === undefined || style === undefined || docs === undefined || cornerCases === undefined)
    return `it has no score for ${DIMENSIONS.filter((dimension) => !found.has(dimension)).join(", ")}, and no overall one`;
  const scores = { faithful, style, docs, cornerCases };
  return { kind: "read", scores, score: total ?? mean(scores), findings: [reviewWords(text)], suggestions: [] };
}

const SCORE_LINE =
  /^([a-z][a-z _-]{0,40}?)(?: score)?\s*[:=]\s*(\d+(?:\.\d+)?)\s*(?:(%)|(?:\/|(?:out )?of)\s*(\d+))?\s*(?:[.,;(–—-].*)?$/i;

/** A score inside a sentence does not count, nor does one after `>`, which quotes. */
function proseScores(prose: string): readonly { readonly name: Dimension | "overall"; readonly score: number }[] {
  return prose
    .split("\n")
    .filter((line) => !/^\s*>/.test(line))
    .flatMap((line) => line.slice(0, LINE_CHARACTERS).split(/(?<=[.!?]) /))
    .flatMap((sentence) => {
      const match = SCORE_LINE.exec(sentence.replaceAll(/[*_#`]|^\s*[-•]\s/g, " ").trim());
      const name = PROSE_NAMES.get(bareName(match?.[1] ?? ""));
      if (match === null || name === undefined) return [];
      const [scale, given] = [match[4], match[3] ?? match[4]];
      // "Rating: 9" may mean 9 of 10 or of 5.
      if (given === undefined && /rating/i.test(match[1] ?? "")) return [];
      const share = Number(match[2]) / Number(scale ?? 100);
      return share <= 1 ? [{ name, score: clamp(share * 100) }] : [];
    });
}

const LINE_CHARACTERS = 400;
const PROSE_NAMES: ReadonlyMap<string, Dimension | "overall"> = new Map<string, Dimension | "overall">([
  ...DIMENSIONS.map((dimension) => [bareName(dimension), dimension] as const),
  ["faithfulness", "faithful"],
  ["documentation", "docs"],
  ["score", "overall"],
  ["overall", "overall"],
  ["overallscore", "overall"],
  ["quality", "overall"],
  ["overallquality", "overall"],
  ["rating", "overall"],
  ["overallrating", "overall"],
]);

const WORDS_CHARACTERS = 8_000;

/** The reviewer's reply as a finding. */
function reviewWords(text: string): string {
  return text.trim().slice(0, WORDS_CHARACTERS).toWellFormed();
}

function readScores(
  object: JsonObject,
):
  | { readonly kind: "read"; readonly scores: Scores }
  | { readonly kind: "missing"; readonly missing: readonly Dimension[] } {
  const source = isJsonObject(object["scores"]) ? object["scores"] : object;
  const byName = new Map(Object.entries(source).map(([name, value]) => [bareName(name), value]));
  const found = new Map<Dimension, number>();
  for (const dimension of DIMENSIONS) {
    const score = parseScore(byName.get(bareName(dimension)));
    if (score !== null) found.set(dimension, score);
  }
  const [faithful, style, docs, cornerCases] = DIMENSIONS.map((dimension) => found.get(dimension));
  if (faithful === undefined || style === undefined || docs === undefined || cornerCases === undefined)
    return { kind: "missing", missing: DIMENSIONS.filter((dimension) => !found.has(dimension)) };
  return { kind: "read", scores: { faithful, style, docs, cornerCases } };
}

/** Treats "corner_cases", "cornerCases" and "Corner cases" as one name. */
function bareName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z]/g, "");
}

function overall(object: JsonObject, scores: Scores): number {
  for (const name of ["overall_score", "overall", "score"]) {
    const score = parseScore(object[name]);
    if (score !== null) return score;
  }
  return mean(scores);
}

function mean(scores: Scores): number {
  const all = DIMENSIONS.map((dimension) => scores[dimension]);
  return Math.round(all.reduce((sum, one) => sum + one, 0) / all.length);
}

/** Reads a list, or a text with one remark per line. */
function readLines(value: Json | undefined): readonly string[] {
  const items = typeof value === "string" ? value.split(/\r?\n/) : isJsonArray(value) ? value : [];
  return items
    .map((item) => (typeof item === "string" ? item : remarkOf(item)))
    .map((item) => item.replace(/^\s*[-*]\s+/, "").trim())
    .filter((item) => item !== "");
}

/** A remark as an object with its place, such as `{"file": "a.ts", "line": 3, "message": "…"}`, in one line. */
function remarkOf(item: Json): string {
  if (!isJsonObject(item)) return JSON.stringify(item);
  const valueOf = (names: readonly string[]) =>
    names.map((name) => item[name]).find((value) => typeof value === "string" || typeof value === "number");
  const place = [valueOf(["file", "path", "location"]), valueOf(["line"])].filter((part) => part !== undefined);
  const words = valueOf(["message", "finding", "description", "text", "title", "what", "suggestion"]);
  if (words === undefined) return JSON.stringify(item);
  return place.length === 0 ? String(words) : `${place.join(":")}: ${words}`;
}

/**
 * Reads a score from 0 to 100; null if the value is not a score. Numbers are rounded and clamped. Texts may include
 * their scale ("92", "85.5/100", "9/10", "90 %"). An object may hold the value as `score`.
 */
export function parseScore(value: Json | undefined): number | null {
  if (typeof value === "number") return Number.isFinite(value) ? clamp(value) : null;
  if (typeof value === "string") return scoreOfText(value);
  return isJsonObject(value) ? parseScore(value["score"]) : null;
}

const SCALED = /^\s*(-?\d+(?:\.\d+)?)\s*(?:%|\/\s*(\d+(?:\.\d+)?))?\s*$/;

function scoreOfText(text: string): number | null {
  const match = SCALED.exec(text);
  if (match === null) return null;
  const scale = match[2] === undefined ? 100 : Number(match[2]);
  return scale > 0 ? clamp((Number(match[1]) / scale) * 100) : null;
}

function clamp(value: number): number {
  return Math.min(100, Math.max(0, Math.round(value)));
}

/** Every dimension must reach its threshold; the overall score does not decide. */
export function decideReview(params: {
  readonly reply: ReviewReply;
  readonly thresholds: ImplOptions["thresholds"];
  readonly iteration: number;
}): Review {
  const { reply, iteration, thresholds } = params;
  if (reply.kind === "unreadable") {
    const finding = `The reviewer's reply could not be read: ${reply.why}`;
    const words = reviewWords(reply.text);
    const findings = words === "" ? [finding] : [finding, words];
    return { iteration, pass: false, score: null, scores: null, findings, suggestions: [] };
  }
  const short = shortOf(reply.scores, thresholds);
  const suggestions =
    short.length > 0 && reply.suggestions.length === 0
      ? [`Raise the review scores to their thresholds: ${shortText(reply.scores, thresholds)}`]
      : reply.suggestions;
  const { score, scores, findings } = reply;
  return { iteration, pass: short.length === 0, score, scores, findings, suggestions };
}

export function reviewReason(review: Review, thresholds: ImplOptions["thresholds"]): string {
  if (review.scores === null) return review.findings[0] ?? "The reviewer's reply could not be read";
  if (review.pass) return `The review passed with ${review.score ?? 0}`;
  return `The review failed with ${review.score ?? 0}: ${shortText(review.scores, thresholds)}`;
}

/** The review's feedback for the next implementation prompt. */
export function reviewFeedback(review: Review, thresholds: ImplOptions["thresholds"]): string {
  const list = (title: string, items: readonly string[]): readonly string[] =>
    items.length === 0 ? [] : [title, ...items.map((item) => `- ${item}`)];
  return [
    `${reviewReason(review, thresholds)}.`,
    ...list("Suggestions:", review.suggestions),
    ...list("Findings:", review.findings),
  ].join("\n");
}

function thresholdsText(thresholds: ImplOptions["thresholds"]): string {
  return DIMENSIONS.map((dimension) => `${spelled(dimension)} ${thresholds[dimension]}`).join(", ");
}

/** The spelling in the report file and in the reviewer's JSON. */
function spelled(dimension: Dimension): string {
  return dimension === "cornerCases" ? "corner_cases" : dimension;
}

function shortOf(scores: Scores, thresholds: ImplOptions["thresholds"]): readonly Dimension[] {
  return DIMENSIONS.filter((dimension) => scores[dimension] < thresholds[dimension]);
}

function shortText(scores: Scores, thresholds: ImplOptions["thresholds"]): string {
  return shortOf(scores, thresholds)
    .map((dimension) => `${spelled(dimension)}=${scores[dimension]}<${thresholds[dimension]}`)
    .join(", ");
}

/** Content of `.tmp/review-iter-N.json`. Other tools read these field names. */
export function reviewReport(review: Review): JsonObject {
  const { scores, score, pass, findings, suggestions, iteration } = review;
  return {
    scores: scores === null ? null : Object.fromEntries(DIMENSIONS.map((one) => [spelled(one), scores[one]])),
    overall_score: score,
    pass,
    findings,
    suggestions,
    raw_output_path: outputFiles.reviewOutput(iteration),
  };
}
