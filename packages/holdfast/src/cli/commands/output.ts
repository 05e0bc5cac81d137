/** The `output` command: prints what the agents of a run printed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { AgentLogFile } from "@holdfast/core/agent-log";
import { type JournalEntry, textOf } from "@holdfast/core/journal";
import { isJsonObject } from "@holdfast/core/json";
import { choiceHint } from "@holdfast/core/options";
import { isHeld } from "@holdfast/core/status";
import { usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { paint } from "../output/page.ts";
import { escapeText, wrapLine } from "../output/text.ts";
import { parseLimit } from "../parse-arguments.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "output",
  summary: "show what the agents of a run printed",
  details: [
    "Prints the raw output of every agent call of a run, in order. The events of the run itself are in its journal: `holdfast events`.",
  ],
  operands: [
    {
      name: "RUN",
      about:
        "a run id or an issue number; default the run of this worktree, else the run that is running or the newest one",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  flags: {
    follow: { type: "boolean", short: "f", about: "keep printing new output until the run ends or Ctrl+C" },
    step: { type: "text", value: "NAME", about: "only calls of this step, or of steps that begin so" },
    limit: { type: "text", short: "n", value: "N", about: 'the last N lines of each call, or "all" (default 200)' },
  },
  examples: [
    { line: "holdfast output issue-42", about: "the last lines of each call" },
    { line: "holdfast output issue-42 --step review --limit all", about: "the whole output of the reviewers" },
    { line: "holdfast output --follow", about: "follow the agent that is running" },
  ],
  reads: true,
  json: '{"run": {...}, "calls": [{"attempt", "step", "path", "bytes", "modifiedAt", "lines": [...]}]}; with --follow one JSON line {"kind": "line", "attempt", "step", "line"} for each.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const limit = parseLimit(input.text("limit"), 200);
  const step = input.text("step");
  const holdfast = await shell.open({ create: false });
  const id = await findOutputRun(holdfast, input.operand(0));
  const list = async () =>
    (await holdfast.logs.list(id)).filter((file) => step === undefined || file.step.startsWith(step));
  if (input.on("follow")) return await follow(shell, holdfast, { run: id, step, list, limit });
  const files = await list();
  if (files.length === 0 && step !== undefined) await refuseUnknownStep(holdfast, { run: id, step });
  const calls: (AgentLogFile & { readonly lines: readonly string[] })[] = [];
  for (const file of files) calls.push({ ...file, lines: last((await holdfast.logs.read(file, 0)).lines, limit) });
  const found = await holdfast.runWithStatus(id);
  shell.print({
    json: () => ({
      run: runJson(found),
      calls: calls.map(({ stageAttempt, ...call }) => ({ attempt: stageAttempt, ...call })),
    }),
    content: true,
    text: (page) =>
      calls
        .map(({ lines, ...file }) => `${header(file, page)}${lines.map((line) => lineText(shell, line)).join("")}`)
        .join("\n"),
  });
  if (files.length === 0) await notifyNoCalls(shell, holdfast, { run: id, step });
  return "done";
}

/** Without a name, a run that called no agent is passed over, such as the manual checkpoints of this worktree. */
async function findOutputRun(holdfast: Holdfast, typed: string | undefined): Promise<string> {
  const { id } = await findRun(holdfast, typed);
  const hasCalls = async (run: string) => (await holdfast.logs.list(run)).length > 0;
  if (typed !== undefined || (await hasCalls(id))) return id;
  const runs = await holdfast.statuses();
  const running = runs.find(({ status }) => isHeld(status));
  if (running !== undefined) return running.run.id;
  for (const { run } of runs) if (await hasCalls(run.id)) return run.id;
  return id;
}

async function notifyNoCalls(
  shell: Shell,
  holdfast: Holdfast,
  { run, step }: { readonly run: string; readonly step: string | undefined },
): Promise<void> {
  const entries: JournalEntry[] = [];
  for await (const entry of holdfast.store.readJournal({ run })) entries.push(entry);
  const hosts = hostsOfCalls(entries, step);
  const which = step === undefined ? "" : ` in step ${step}`;
  shell.notify(
    hosts.length === 0
      ? `No agent was called${escapeText(which)} in ${run}.`
      : `No output of ${run} is here: its agents were called on ${escapeText(hosts.join(", "))}. Run the command there.`,
  );
  shell.notify(`Its journal: ${shell.talk.program} events ${run}`);
}

/** The machines on which agents were called: each call belongs to the holder of the lease, and its log stays there. Pure. */
export function hostsOfCalls(
  entries: Iterable<Pick<JournalEntry, "kind" | "body">>,
  step: string | undefined,
): readonly string[] {
  const hosts = new Set<string>();
  let host: string | null = null;
  for (const { kind, body } of entries) {
    const { owner, estimate } = body;
    if (kind === "lease.taken") host = isJsonObject(owner) && typeof owner["host"] === "string" ? owner["host"] : null;
    const isCall = kind === "step.started" && isJsonObject(estimate) && textOf(body, "step").startsWith(step ?? "");
    if (isCall && host !== null) hosts.add(host);
  }
  return [...hosts];
}

/** A run without any call has no step to choose from, and is reported as such. */
async function refuseUnknownStep(
  holdfast: Holdfast,
  params: { readonly run: string; readonly step: string },
): Promise<void> {
  const steps = new Set((await holdfast.logs.list(params.run)).map((file) => file.step));
  if (steps.size === 0) return;
  throw usageError(
    `No agent was called in a step "${params.step}" of ${params.run}`,
    choiceHint(params.step, [...steps]),
  );
}

async function follow(
  shell: Shell,
  holdfast: Holdfast,
  params: {
    readonly run: string;
    readonly step: string | undefined;
    readonly list: () => Promise<readonly AgentLogFile[]>;
    readonly limit: number | undefined;
  },
): Promise<Exit> {
  const read = new Map<string, number>();
  let shown: string | undefined;
  for (let first = true; ; first = false) {
    // Read the status before the files, so that everything written before the end is shown.
    const { status } = await holdfast.status(params.run);
    for (const file of await params.list()) {
      const start = read.get(file.path) ?? 0;
      if (file.bytes <= start) continue;
      const { lines, next } = await holdfast.logs.read(file, start);
      read.set(file.path, next);
      for (const line of first ? last(lines, params.limit) : lines) {
        if (!shell.json && shown !== file.path) shell.write(header(file, shell.page));
        shown = file.path;
        const { stageAttempt, step } = file;
        if (
          !shell.write(
            shell.json
              ? `${JSON.stringify({ kind: "line", attempt: stageAttempt, step, line })}\n`
              : lineText(shell, line),
            shell.json ? "message" : "content",
          )
        )
          return "done";
      }
    }
    if (!isHeld(status)) {
      if (read.size === 0) await notifyNoCalls(shell, holdfast, params);
      return "done";
    }
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

const POLL_MS = 200;

function last(lines: readonly string[], limit: number | undefined): readonly string[] {
  return limit === undefined ? lines : lines.slice(Math.max(0, lines.length - limit));
}

function header(file: Pick<AgentLogFile, "stageAttempt" | "step">, page: Shell["page"]): string {
  return `${paint(page, "bold", `── ${escapeText(file.step)} (stage ${file.stageAttempt} of the run)`)}\n`;
}

function lineText(shell: Shell, line: string): string {
  if (!shell.page.terminal) return `${line}\n`;
  const { program } = shell.page;
  return `${wrapLine(escapeText(line), { program, width: shell.columns(), indent: 2, cutsWords: true })}\n`;
}
