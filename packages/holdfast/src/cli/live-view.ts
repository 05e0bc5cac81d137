/** The live view of a run: JSON lines, a region that is redrawn on a terminal, or plain lines. */
import type { AgentEvent } from "@holdfast/core/agent";
import { belongsToGraph, graphMoveText } from "@holdfast/core/graph-state";
import { type Amounts, verdictText } from "@holdfast/core/position";
import type { ProgressEvent } from "@holdfast/core/progress";
import type { LoopSummary } from "@holdfast/workflows/ralph/loop-summary";
import type { GraphPicture } from "../graph-view.ts";
import type { Holdfast } from "../holdfast.ts";
import type { Shell } from "./command.ts";
import { compactGraphLines } from "./output/graph-text.ts";
import { type Page, controlSequence, paint } from "./output/page.ts";
import { clockText, exactTime, scoreText, spentText } from "./output/quantities.ts";
import { bestText, metricsText, sparkline, trailText } from "./output/status-text.ts";
import { displayWidth, escapeText, escapeWords, truncate, wrapLine } from "./output/text.ts";

/** Shows a run while it executes: JSON lines for programs, a live view on a terminal, plain lines elsewhere. */
interface Reporter {
  show(event: ProgressEvent): void;
  spent(amounts: Amounts): void;
  /** The current task graph. */
  graph(graph: GraphPicture | null): void;
  /** The progress of a loop, from its newest checkpoint. */
  loop(loop: LoopSummary | null): void;
  /** Removes the live view before the outcome is printed. */
  close(): void;
}

export function createReporter(shell: Shell): Reporter {
  if (shell.json) return { show: (event) => void shell.write(`${JSON.stringify(event)}\n`), ...NO_VIEW };
  if (shell.quiet) return { show() {}, ...NO_VIEW };
  return canRedraw(shell) ? liveReporter(shell) : plainReporter(shell);
}

function plainReporter(shell: Shell): Reporter {
  return {
    show(event) {
      const line = eventLine(event, shell.page);
      if (line !== null) shell.write(line);
    },
    ...NO_VIEW,
  };
}

const NO_VIEW = { spent() {}, graph() {}, loop() {}, close() {} };

/** Redraws after events, and periodically so that the clock advances, but at a limited rate. */
function liveReporter(shell: Shell): Reporter {
  const region = createLiveRegion({
    write: (text) => void shell.write(text),
    columns: shell.columns,
    page: shell.page,
  });
  let picture = emptyPicture("");
  let open = true;
  const draw = (): void => {
    if (!open) return;
    region.draw(pictureLines(picture, { ...shell.page, width: shell.columns(), now: Date.now() }));
  };
  const timer = setInterval(draw, REDRAW_MS);
  timer.unref();
  const close = (): void => {
    if (!open) return;
    open = false;
    clearInterval(timer);
    process.off("SIGWINCH", draw);
    process.off("exit", close);
    region.close();
  };
  process.on("SIGWINCH", draw);
  // A second Ctrl+C exits from anywhere, and the cursor must be restored.
  process.on("exit", close);
  return {
    show(event) {
      picture = reduceEvent(picture, event);
      const line = event.kind === "agent" ? null : eventLine(event, shell.page);
      if (line === null || !open) return;
      const width = shell.columns() - 1;
      const lines = line.trimEnd().split("\n");
      const { program } = shell.page;
      region.log(
        `${lines.map((each, at) => wrapLine(each, { program, width, indent: at === 0 ? 12 : 14 })).join("\n")}\n`,
      );
    },
    spent(amounts) {
      picture = { ...picture, spent: amounts };
    },
    graph(graph) {
      picture = { ...picture, graph };
    },
    loop(loop) {
      picture = { ...picture, loop };
    },
    close,
  };
}

const REDRAW_MS = 100;

/** The state of the live view, reduced from the engine's events. */
interface LiveState {
  readonly run: string;
  readonly stage: string;
  readonly iteration: number;
  /** Milliseconds since the epoch at which the stage was entered; null before the first event. */
  readonly since: number | null;
  /** In the order in which the reviews ended. */
  readonly scores: readonly number[];
  readonly spent: Amounts | null;
  /** The agent's last action, what the newest step does in its own words, or the last event. */
  readonly last: string;
  readonly checkpoint: number | null;
  readonly graph: GraphPicture | null;
  readonly loop: LoopSummary | null;
}

export function emptyPicture(run: string): LiveState {
  return {
    run,
    stage: "",
    iteration: 0,
    since: null,
    scores: [],
    spent: null,
    last: "",
    checkpoint: null,
    graph: null,
    loop: null,
  };
}

export function reduceEvent(picture: LiveState, event: ProgressEvent): LiveState {
  const now = { ...picture, run: event.run };
  switch (event.kind) {
    case "started":
    case "stage_entered":
      return {
        ...now,
        stage: event.stage,
        iteration: event.iteration,
        since: Date.parse(event.at),
        last: event.kind === "started" ? "" : picture.last,
      };
    case "stage_ended":
      return {
        ...now,
        iteration: event.iteration,
        scores: event.score === null ? picture.scores : [...picture.scores, event.score],
        last: event.reason,
      };
    case "step_started":
      // The graph view shows the nodes, whose steps have names for the journal only.
      return belongsToGraph(event.step) ? now : { ...now, last: event.title ?? event.step };
    case "step_failed":
      return { ...now, last: event.reason };
    case "agent": {
      const action = actionText(event.event);
      return action === null ? now : { ...now, last: action };
    }
    case "checkpoint":
      return { ...now, checkpoint: event.checkpoint.sequence };
    case "budget":
      return { ...now, last: event.text };
    case "graph_moved":
      return { ...now, last: event.events.map(graphMoveText).join(", ") };
    case "waiting":
    case "paused":
    case "ended":
      return { ...now, last: event.reason };
    case "step_finished":
    case "effect":
    case "findings":
    case "note":
      // A note has its own line in the log and does not describe the current step.
      return now;
  }
}

/**
 * The view as a few lines, none wider than the page: position, numbers, one line for each batch of the graph, last
 * action.
 */
export function pictureLines(
  picture: LiveState,
  page: Pick<Page, "width" | "color" | "ascii"> & { readonly now: number },
): readonly string[] {
  // The last column stays empty: writing into it makes some terminals wrap.
  const room = page.width - 1;
  const turns = page.ascii === true ? ASCII_SPINNER : SPINNER;
  const spinner = turns[Math.floor(page.now / 100) % turns.length] ?? "";
  const of = picture.loop === null ? "" : ` of ${picture.loop.maxIterations}`;
  const place = picture.iteration > 0 ? `${picture.stage} #${picture.iteration}${of}` : picture.stage;
  const since = picture.since === null ? "" : ` for ${clockText(page.now - picture.since)}`;
  const facts = [picture.run, `${place}${since}`].filter((part) => part !== "").map(escapeText);
  const head = truncate(facts.join(" · "), room - 2);
  const numbers = [
    ...(picture.scores.length === 0
      ? []
      : [`scores ${picture.scores.slice(-6).map(scoreText).join(" ")} ${sparkline(picture.scores, 16)}`]),
    ...(picture.spent === null ? [] : [`spent ${spentText(picture.spent) ?? "nothing"}`]),
    ...(picture.checkpoint === null ? [] : [`saved @${picture.checkpoint}`]),
  ];
  return [
    `${paint(page, "cyan", spinner)} ${paint(page, "bold", head)}`,
    ...(numbers.length === 0 ? [] : [`  ${truncate(numbers.join(" · "), room - 2)}`]),
    ...loopPart(picture.loop, page).map((line) => `  ${truncate(line, room - 2)}`),
    ...graphPart(picture.graph, { ...page, width: room - 2 }).map((line) => `  ${line}`),
    ...(picture.last === "" ? [] : [`  ${paint(page, "dim", truncate(escapeWords(picture.last), room - 2))}`]),
  ];
}

function loopPart(loop: LiveState["loop"], page: Pick<Page, "ascii">): readonly string[] {
  if (loop === null || loop.iterations.length === 0) return [];
  const best = bestText(loop);
  const facts = [trailText(loop, page, 30), metricsText(loop), best === null ? null : `best ${best}`];
  const finding = loop.findings.at(-1);
  const newest = loop.iterations.at(-1)?.number;
  return [
    facts.filter((fact) => fact !== null).join(" · "),
    ...(finding?.iteration === newest && finding !== undefined ? [escapeText(finding.sentence)] : []),
  ];
}

function graphPart(graph: LiveState["graph"], page: Pick<Page, "width" | "color" | "ascii">): readonly string[] {
  return graph === null ? [] : compactGraphLines(graph, page);
}

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_SPINNER = ["|", "/", "-", "\\"];

/**
 * The permanent log line for an event; null for events without one. Always a single line, whatever its texts contain.
 * The output of a command follows it in marked lines.
 */
export function eventLine(event: ProgressEvent, page: Pick<Page, "color" | "offset">): string | null {
  const text = eventText(event, page);
  if (text === null) return null;
  const time = exactTime(event.at, page.offset).slice(11, 19);
  return `${paint(page, "dim", time)}  ${text}\n`;
}

function eventText(event: ProgressEvent, page: Pick<Page, "color">): string | null {
  switch (event.kind) {
    case "started":
      return `${escapeText(event.run)} ${event.resumed ? "continues" : "starts"} in ${place(event)}`;
    case "stage_entered":
      return paint(page, "bold", place(event));
    case "stage_ended": {
      // The name of the event is for programs.
      const score = event.score === null ? "" : ` (score ${scoreText(event.score)})`;
      return `  ${event.reason === "" ? escapeText(event.event) : escapeWords(event.reason)}${score}`;
    }
    case "step_finished":
      // A graph has dozens of steps per node, and the graph view shows its nodes.
      return event.replayed && !belongsToGraph(event.step)
        ? `  finished before: ${escapeWords(event.title ?? event.step)}`
        : null;
    case "step_failed": {
      const again =
        event.retryAt === null || event.verdict?.action === "fallback"
          ? ""
          : `; again at ${event.retryAt.slice(11, 19)} UTC`;
      const verdict = event.verdict === undefined ? "" : `; ${escapeWords(verdictText(event.verdict))}`;
      return `  ${paint(page, "yellow", "!")} ${escapeText(event.step)}: ${escapeWords(event.reason)}${again}${verdict}`;
    }
    case "agent": {
      const action = event.event.kind === "tool" ? actionText(event.event) : null;
      return action === null ? null : `  ${paint(page, "dim", escapeText(action))}`;
    }
    case "effect":
      return event.what === "intended" ? null : `  ${effectText(event)}`;
    case "budget":
      return `  ${paint(page, "yellow", escapeWords(event.text))}`;
    case "note":
      return [`  ${escapeWords(event.text)}`, ...(event.output ?? []).map(outputLine)].join("\n");
    case "graph_moved":
      return `  ${escapeWords(event.events.map(graphMoveText).join(", "))}`;
    case "findings":
    case "step_started":
    case "checkpoint":
    case "waiting":
    case "paused":
    case "ended":
      return null;
  }
}

/** Each line of a command's output is marked, so that none can pass for a line of ours. */
function outputLine(line: string): string {
  return `${" ".repeat(12)}| ${escapeText(line)}`;
}

function place(at: { readonly stage: string; readonly iteration: number }): string {
  return escapeText(at.iteration > 0 ? `${at.stage} #${at.iteration}` : at.stage);
}

function effectText(event: Extract<ProgressEvent, { readonly kind: "effect" }>): string {
  // "push" of "issue-42/pr/push.6": the lines above show the rest.
  const purpose = escapeText((event.key.split("/").at(-1) ?? event.key).replace(/\.\d+$/, ""));
  switch (event.what) {
    case "intended":
    case "acted":
      return `${purpose} done`;
    case "adopted":
      return `${purpose} was there already, taken over`;
    case "failed":
      return `${purpose} refused`;
    case "unknown":
      return `${purpose}: not known whether it happened`;
  }
}

/** The agent's current action in one line; null for events without interest for the user (raw lines, counts). */
function actionText(event: AgentEvent): string | null {
  switch (event.kind) {
    case "tool":
      return event.detail === "" ? event.name : `${event.name}: ${firstLine(event.detail)}`;
    case "text": {
      const line = firstLine(event.text);
      return line === "" ? null : line;
    }
    case "session":
    case "message":
    case "usage":
    case "raw":
    case "masked":
    case "process":
      return null;
  }
}

function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? ""
  );
}

/**
 * Keeps the graph of a live view up to date: reads the journal after events, at a limited rate, and never while the
 * last read is unfinished. The view may be slightly late, but it must never slow down the work.
 */
export function followGraph(
  holdfast: Pick<Holdfast, "graph">,
  reporter: Pick<Reporter, "graph">,
): { show(event: ProgressEvent): void; close(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined;
  let reading: Promise<void> | undefined;
  let again = false;
  let running = false;
  let closed = false;
  let wait = SHORTEST_MS;
  const read = async (run: string): Promise<void> => {
    const from = performance.now();
    again = false;
    try {
      const found = await holdfast.graph(run);
      reporter.graph(found?.picture ?? null);
      running = (found?.picture.counts.running ?? 0) > 0;
    } catch {
      // If the graph cannot be read now, the last one remains visible.
    }
    // A large graph may take long to read, so reading gets a tenth of the time at most.
    wait = Math.max(SHORTEST_MS, (performance.now() - from) * 10);
    reading = undefined;
    if (again) plan(run, wait);
    // Without events, the clocks of running nodes still advance.
    else if (running) plan(run, Math.max(wait, CLOCK_MS));
  };
  const plan = (run: string, after: number): void => {
    if (closed || timer !== undefined || reading !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      reading = read(run);
    }, after);
    timer.unref();
  };
  return {
    show(event) {
      // Agent events do not change a node's state.
      if (event.kind === "agent") return;
      if (!again && timer !== undefined) {
        clearTimeout(timer);
        timer = undefined;
      }
      again = true;
      plan(event.run, wait);
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      await reading;
    },
  };
}

const SHORTEST_MS = 300;
const CLOCK_MS = 5000;

/**
 * A few lines at the bottom of a terminal that are redrawn in place, with a log that scrolls above them. Each change is
 * one write, and lines are overwritten and then cleared to their end, so nothing flickers.
 */
interface LiveRegion {
  /** Prints permanent lines above the region. */
  log(text: string): void;
  draw(lines: readonly string[]): void;
  /** Removes the region. Ordinary output follows. */
  close(): void;
}

export function createLiveRegion(params: {
  readonly write: (text: string) => void;
  /** Called at every draw, because the user may resize the window. */
  readonly columns: () => number;
  readonly page: Pick<Page, "seal">;
}): LiveRegion {
  const sequence = (parameters: string, final: string): string => controlSequence(params.page, parameters, final);
  const [clearLine, clearBelow, lineStart] = [sequence("", "K"), sequence("", "J"), sequence("", "G")];
  // Synchronized output: terminals that support it show the whole update at once; others ignore it.
  const [begin, end] = [sequence("?2026", "h"), sequence("?2026", "l")];
  const [hide, show] = [sequence("?25", "l"), sequence("?25", "h")];
  let drawn: readonly string[] = [];
  let open = false;
  const render = (above: string, lines: readonly string[]): void => {
    const up = rowsOf(drawn, params.columns());
    const back = up === 0 ? lineStart : sequence(String(up), "A") + lineStart;
    const start = open ? begin + back : begin + hide;
    const body = above === "" ? "" : `${above.replace(/\n$/, "").replaceAll("\n", `${clearLine}\n`)}${clearLine}\n`;
    open = true;
    drawn = lines;
    params.write(`${start}${body}${lines.map((line) => `${line}${clearLine}\n`).join("")}${clearBelow}${end}`);
  };
  return {
    log: (text) => render(text, drawn),
    draw: (lines) => render("", lines),
    close() {
      if (!open) return;
      render("", []);
      open = false;
      params.write(show);
    },
  };
}

/** Rows that these lines occupy now: a window that was made narrower has wrapped them. */
function rowsOf(lines: readonly string[], columns: number): number {
  return lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(withoutStyle(line)) / columns)), 0);
}

function withoutStyle(line: string): string {
  // eslint-disable-next-line no-control-regex
  return line.replaceAll(/\x1b\[[0-9;]*m/g, "");
}

/** A view that is redrawn in place needs a terminal whose cursor can be moved. */
export function canRedraw(shell: Pick<Shell, "page" | "env">): boolean {
  return shell.page.terminal && shell.env["TERM"] !== "dumb";
}
