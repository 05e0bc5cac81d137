import type { Answer, Edit, Script } from "./script-schema.ts";

/** Which call it is. Nothing else decides, so kills, retries and resumes cannot skew what a script answers. */
export interface CallFacts {
  readonly role: string;
  readonly iteration: number;
  readonly attempt: number;
  readonly resumed: boolean;
  readonly yolo: boolean;
}

/** What the runner does, one after the other. */
export type RunnerAction =
  | Edit
  | { readonly do: "say"; readonly event: RunnerEvent }
  | {
      readonly do: "spawn";
      readonly ignoreTerm: boolean;
      readonly afterMs: number;
      readonly path: string | null;
      readonly text: string;
    }
  | { readonly do: "hang" }
  | { readonly do: "exit"; readonly code: number };

/** A line of the runner's output. */
export type RunnerEvent =
  | { readonly type: "session"; readonly id: string }
  | { readonly type: "edit"; readonly do: string; readonly path: string }
  | {
      readonly type: "usage";
      readonly input: number | null;
      readonly output: number | null;
      readonly microUsd: number | null;
    }
  | { readonly type: "result"; readonly text: string }
  | { readonly type: "failure"; readonly cause: string; readonly message: string; readonly untilMs: number | null };

export interface AnswerFiles {
  /** The line that says "done" for this issue and iteration; null: the workflow gave none. */
  readonly completion: string | null;
  readonly finalize: string;
  readonly commitReport: string;
}

/** The first that fits. */
export function chooseAnswer(script: Script, facts: CallFacts): Answer | undefined {
  return script.answers.find(({ when }) => {
    if (when === undefined) return true;
    return (
      fits(when.role, facts.role) &&
      fits(when.iteration, facts.iteration) &&
      fits(when.attempt, facts.attempt) &&
      fits(when.resumed, facts.resumed) &&
      fits(when.yolo, facts.yolo)
    );
  });
}

export function planAnswer(params: {
  readonly answer: Answer;
  readonly attempt: number;
  readonly session: string | null;
  readonly files: AnswerFiles;
}): readonly RunnerAction[] {
  const { answer } = params;
  const failure = failureOf(answer, params.attempt);
  const opening: RunnerAction[] = [
    ...(params.session === null ? [] : [say({ type: "session", id: params.session })]),
    ...(answer.delayMs === undefined ? [] : [{ do: "wait" as const, ms: answer.delayMs }]),
  ];
  if (failure !== null && answer.fail?.afterEdits !== true) return [...opening, ...usageOf(answer), ...failure];
  return [
    ...opening,
    ...(answer.edits ?? []).flatMap((edit) => (edit.do === "wait" ? [edit] : [edit, told(edit)])),
    ...reportsOf(answer, params.files),
    ...usageOf(answer),
    ...spawnOf(answer),
    ...(answer.hang === true ? [{ do: "hang" as const }] : []),
    ...(failure ?? [say({ type: "result", text: replyOf(answer) }), { do: "exit", code: answer.exit ?? 0 }]),
  ];
}

function fits<T>(wanted: T | readonly T[] | undefined, actual: T): boolean {
  if (wanted === undefined) return true;
  return Array.isArray(wanted) ? wanted.includes(actual) : wanted === actual;
}

function say(event: RunnerEvent): RunnerAction {
  return { do: "say", event };
}

function told(edit: Exclude<Edit, { do: "wait" }>): RunnerAction {
  return say({ type: "edit", do: edit.do, path: edit.path });
}

/** `times` counts by the attempt's own number: an agent that kept a count would lose it with its process. */
function failureOf(answer: Answer, attempt: number): readonly RunnerAction[] | null {
  const { fail } = answer;
  if (fail === undefined || (fail.times !== undefined && attempt > fail.times)) return null;
  const message = fail.message ?? `The script says that this call fails: ${fail.cause}`;
  return [
    say({ type: "failure", cause: fail.cause, message, untilMs: fail.untilMs ?? null }),
    { do: "exit", code: answer.exit ?? 1 },
  ];
}

function usageOf({ usage }: Answer): readonly RunnerAction[] {
  if (usage === undefined) return [];
  const { input = null, output = null, microUsd = null } = usage;
  return [say({ type: "usage", input, output, microUsd })];
}

function spawnOf({ spawn }: Answer): readonly RunnerAction[] {
  if (spawn === undefined) return [];
  const { ignoreTerm = false, afterMs = 0, path = null, text = "" } = spawn;
  return [{ do: "spawn", ignoreTerm, afterMs, path, text }];
}

function reportsOf(answer: Answer, files: AnswerFiles): readonly RunnerAction[] {
  const reports: RunnerAction[] = [];
  if (answer.commitReport !== undefined)
    reports.push({ do: "write", path: files.commitReport, text: answer.commitReport });
  if (answer.finalize === undefined) return reports;
  const { title, body = "" } = answer.finalize;
  const parts = [title, body.trim(), files.completion ?? ""].filter((part) => part !== "");
  return [...reports, { do: "write", path: files.finalize, text: `${parts.join("\n\n")}\n` }];
}

function replyOf(answer: Answer): string {
  const scores =
    answer.scores === undefined ? null : `\`\`\`json\n${JSON.stringify({ scores: answer.scores })}\n\`\`\``;
  return [answer.reply ?? null, scores].filter((part) => part !== null).join("\n\n");
}
