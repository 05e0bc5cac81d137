/** Turns what a command says it would do into the lines of a plan, plane by plane; and what it did into one sentence. Pure. */
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { PlacedEffect } from "@holdfast/core/effects";
import { type JsonRecord, asRecord, asRecords, asText } from "@holdfast/core/json";
import type { Action, Plan, RunRow } from "@holdfast/dashboard/api";
import { isEnded } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { countText, moneyText } from "../cli/output/quantities.ts";

type Line = Plan["lines"][number];

/** The words of a plan, and what its digest covers besides the action. */
export interface PlanText {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly undo: string | null;
  readonly button: string;
  /** Everything that must still hold when the plan is applied. */
  readonly basis: unknown;
  /** What is applied; it differs from the action that was asked for if the plan accepts findings. */
  readonly action: Action;
}

export interface PlanFacts {
  readonly action: Action;
  readonly row: RunRow;
  /** Its commands work from any directory. */
  readonly command: (...argv: readonly string[]) => string;
  /** What `--dry-run --json` printed; null: the command has no dry run. */
  readonly document: JsonRecord | null;
  /** The checkpoint that the action names. */
  readonly checkpoint: CheckpointSummary | null;
  readonly effects: readonly PlacedEffect[];
  /** Of a restore: the files of the worktree that differ from the newest checkpoint. */
  readonly unsaved: readonly string[];
}

const MAX_PATHS = 30;

function line(title: string, texts: readonly string[], warns = false): Line {
  return { title, texts, warns };
}

/** What is usual needs no words: the plan applies the action that was asked for, and nothing undoes it. */
type Words = Omit<PlanText, "undo" | "action"> & Partial<PlanText>;

/** Throws NEEDS_DECISION if the command would refuse. */
export function planText(facts: PlanFacts): PlanText {
  return { undo: null, action: facts.action, ...wordsOf(facts) };
}

function wordsOf(facts: PlanFacts): Words {
  const { action, row, document } = facts;
  const { id, status } = row.run;
  const doc = document ?? {};
  const [name, statusBasis] = [id, status.kind];
  switch (action.kind) {
    case "answer": {
      const question = asRecord(doc["question"]);
      const [asked, options] = [asText(question["question"]), textsOf(question["options"])];
      if (question["name"] !== action.question)
        throw new HoldfastError({
          code: "NEEDS_DECISION",
          message: `${id} does not ask that any more. It asks: ${asked}`,
          hint: `Answer that question: \`${facts.command("approve", id)}\`.`,
        });
      if (options.length > 0 && !options.includes(action.answer))
        throw usageError(
          `${JSON.stringify(action.answer)} does not answer "${asked}"`,
          `The answers are: ${options.join(", ")}.`,
        );
      return {
        title: `Answer ${name}`,
        lines: [
          line("Question", [asked]),
          line("Answer", [action.answer, ...(action.note === null ? [] : [`Note for the journal: ${action.note}`])]),
          line("Then", [
            !action.resume
              ? "The run waits until you resume it."
              : isStop(action.answer)
                ? "The run reads the answer in the background, and stops."
                : "The run continues in the background.",
          ]),
        ],
        button: action.resume ? "Answer and resume" : "Answer",
        // The same question may be asked again, about something else.
        basis: [statusBasis, asked, row.run.entries],
      };
    }
    case "pause":
      return {
        title: `Pause ${name}`,
        lines: [
          line("Agent", ["It is ended now. Its step begins again on resume, or continues its session."]),
          line("Files and state", ["Saved as a checkpoint first."]),
        ],
        undo: "Resume continues the run.",
        button: "Pause",
        basis: [statusBasis],
      };
    case "abort":
      return {
        title: `Abort ${name}`,
        lines: [
          line("Run", ["It ends. Only a restart from a checkpoint continues it."], true),
          line("Stays", ["Branch, worktree and checkpoints."]),
        ],
        button: "Abort the run",
        // A run that works has new entries all the time.
        basis: [statusBasis, status.kind === "running" ? null : row.run.entries],
      };
    case "checkpoint":
      return {
        title: `Save a checkpoint of ${name}`,
        lines: [
          line("Files", [changedText(asRecords(doc["changes"]).length)]),
          line("State", ["Position, values and conversation, as they are now."]),
          ...skippedLines(doc),
        ],
        undo: "Not needed: the run itself does not change.",
        button: "Save",
        basis: [statusBasis],
      };
    case "remove":
      return removal(facts, doc);
    case "resume":
    case "raise":
      return resumption(facts, doc);
    case "restore":
      return restoration(facts, doc);
    case "fork": {
      const { as, worktree } = asRecord(doc["plan"]);
      return {
        title: `Fork ${name}@${action.sequence}`,
        lines: [
          line("New run", [typeof as === "string" ? as : "Its id is generated."]),
          line("Files", [worktree === true ? "A worktree and a branch of its own." : "No worktree: state only."]),
          line("State", ["That of the checkpoint. Before its first push or pull request it asks you."]),
          line("Stays", [`${name} and its worktree do not change.`]),
          line("Then", ["It is paused until you resume it."]),
        ],
        undo: "Remove the new run, as long as it has not run.",
        button: "Fork",
        basis: [doc, facts.checkpoint?.digest],
      };
    }
    case "tag":
      return {
        title: `Tag ${name}@${action.sequence}`,
        lines: [line("Tag", [`${action.name} names this checkpoint, and retention keeps it.`])],
        undo: "Remove the tag.",
        button: "Tag",
        basis: [doc, facts.checkpoint?.digest],
      };
    case "untag":
      return {
        title: `Remove the tag ${action.name} of ${name}`,
        lines: [
          line("Tag", [`${action.name} names no checkpoint any more. The checkpoint stays until retention drops it.`]),
        ],
        undo: "Tag it again.",
        button: "Remove the tag",
        basis: [doc],
      };
    case "choose":
      return {
        title: `Choose ${name}`,
        lines: [
          line("Tag", [`The newest checkpoint of ${name} is tagged "chosen", so that retention keeps it.`]),
          line("Others", [`They lose that tag if they have it: ${action.others.join(", ")}`]),
          line("Stays", ["No files, branches or runs change."]),
        ],
        undo: "Remove the tag. A run that had it before gets it back if you choose that one.",
        button: `Choose ${name}`,
        basis: [row.run.latest?.sequence],
      };
    case "cherry_pick": {
      const plan = asRecord(doc["plan"]);
      const files = asRecord(plan["files"]);
      const edited = textsOf(plan["edited"]);
      return {
        title: `Copy files into ${name}`,
        lines: [
          line("Files", fileTexts(files)),
          ...(edited.length === 0 ? [] : [line("Changed since the newest checkpoint", edited, true)]),
          line("Before that", [`The present files are saved as ${nextOf(row)}.`]),
        ],
        undo: `Restore ${nextOf(row)}.`,
        button: "Copy the files",
        basis: [doc, row.run.entries],
      };
    }
  }
}

function removal({ row, command }: PlanFacts, doc: JsonRecord): Words {
  const [run = {}] = asRecords(doc["runs"]);
  const reasons = [...textsOf(run["reasons"]), ...textsOf(run["forks"]).map((fork) => `${fork} was forked from it`)];
  const { id } = row.run;
  if (reasons.length > 0)
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `${id} is not removed: ${reasons.join("; ")}`,
      hint: `To lose that work: \`${command("rm", id, "--force")}\`.`,
    });
  const { worktree, branch, checkpoints } = run;
  return {
    title: `Remove ${id}`,
    lines: [
      line(
        "Removed",
        [
          ...(typeof worktree === "string" ? [`Its worktree ${worktree}`] : []),
          ...(typeof branch === "string" ? [`Its branch ${branch}`] : []),
          countText(Number(checkpoints ?? 0), "checkpoint"),
        ],
        true,
      ),
      line("Stays", ["Its journal as a tombstone, pull requests, and branches on a remote."]),
    ],
    button: "Remove the run",
    basis: [doc, row.run.entries],
  };
}

/** A difference that the user must accept before the run continues. */
export interface OpenFinding {
  readonly kind: string;
  readonly summary: string;
  /** Removed and added lines; "" if it is not about a text. */
  readonly diff: string;
  /** What is there now. */
  readonly actual: unknown;
}

/** Of the document of `resume --dry-run`. */
export function openFindings(document: JsonRecord): readonly OpenFinding[] {
  return asRecords(asRecord(document["plan"])["judgements"])
    .filter(({ decision }) => decision === "open")
    .map(({ finding }) => asRecord(finding))
    .map(({ kind, summary, diff, actual }) => ({
      kind: asText(kind),
      summary: asText(summary),
      diff: asText(diff),
      actual,
    }));
}

function resumption({ action, row }: PlanFacts, doc: JsonRecord): Words {
  const plan = asRecord(doc["plan"]);
  const { id } = row.run;
  const from = action.kind === "resume" ? action.from : null;
  const kind = asText(plan["kind"]);
  if (kind === "refuse")
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `${id} cannot continue: ${asText(plan["why"])}`,
      ...(asText(plan["hint"]) === "" ? {} : { hint: asText(plan["hint"]) }),
    });
  const judgements = asRecords(plan["judgements"]).filter(({ decision }) => decision !== "accepted_before");
  const open = openFindings(doc);
  const accept = open.map(({ kind: one }) => one);
  const changes = judgements.map(({ finding }) => asText(asRecord(finding)["summary"]));
  const diffs = open.map(({ diff }) => diff).filter((diff) => diff !== "");
  const doings = [...new Set(asRecords(plan["actions"]).map(({ why }) => asText(why)))];
  const notes = textsOf(doc["notes"]);
  return {
    title:
      action.kind === "raise"
        ? `Raise a limit of ${id}`
        : from === null
          ? `Resume ${id}`
          : `Restart ${id} from @${from}`,
    lines: [
      ...(action.kind === "raise" ? [line("Limit", [limitText(action)], true)] : []),
      line("Changed meanwhile", changes.length === 0 ? ["Nothing."] : changes),
      ...diffs.map((diff) => line("Text", diff.split("\n").slice(0, 40))),
      ...(accept.length === 0 ? [] : [line("You accept", accept, true)]),
      ...(doings.length === 0 ? [] : [line("First", doings)]),
      ...(notes.length === 0 ? [] : [line("Note", notes, true)]),
      line("Then", [`The run continues in the background, ${startText(from, notes)}.`]),
    ],
    undo: "Pause stops it again, and a restore goes back to a checkpoint.",
    button: accept.length > 0 ? "Accept and resume" : from === null ? "Resume" : `Continue from @${from}`,
    basis: [kind, judgements, doings, row.run.entries],
    action: action.kind === "resume" ? { ...action, accept: [...new Set([...action.accept, ...accept])] } : action,
  };
}

/** A note names the step that begins again, and from which checkpoint. */
function startText(from: number | null, notes: readonly string[]): string {
  if (from !== null) return `from @${from}`;
  return notes.some((note) => note.includes("begins again from"))
    ? "and begins that step again"
    : "from its newest state";
}

/** Whether an answer ends the run, in the words of the built-in workflows. */
export function isStop(answer: string): boolean {
  return /^(?:stop|abort|no|give.?up|cancel)\b/i.test(answer);
}

function limitText({ limit, to }: Extract<Action, { readonly kind: "raise" }>): string {
  if (limit === "microUsd") return `${moneyText(to)} for the whole run`;
  if (limit === "milliseconds") return `${Math.ceil(to / 60_000)} minutes of work for the whole run`;
  return `${to} ${limit} for the whole run`;
}

function restoration({ action, row, checkpoint, effects, unsaved, command }: PlanFacts, doc: JsonRecord): Words {
  if (action.kind !== "restore") throw new TypeError("a restore has a restore's action");
  const plan = asRecord(doc["plan"]);
  const files = asRecord(plan["files"]);
  const target = `${row.run.id}@${action.sequence}`;
  const blocked = textsOf(files["blocked"]);
  if (blocked.length > 0)
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `${target} cannot be restored: ${blocked.slice(0, 3).join(", ")} is in the way, and no checkpoint has it`,
      hint: `See \`${command("restore", target, "--dry-run")}\`.`,
    });
  const later = effects.filter(({ state, entry }) => state.kind === "done" && entry > (checkpoint?.entry ?? 0));
  const lost = asRecords(doc["lost"]).map(({ path, why }) => `${asText(path)}: ${asText(why)}`);
  const untouched = asRecords(files["untouched"]).map(({ path, reason }) => `${asText(path)} (${asText(reason)})`);
  const exposed = textsOf(files["exposed"]);
  const rebuilds = asText(doc["rebuilds"]);
  const whole = action.paths === null;
  const place =
    checkpoint === null ? "" : `${checkpoint.stage}${checkpoint.iteration > 0 ? ` #${checkpoint.iteration}` : ""}`;
  return {
    title: `Restore ${row.run.id} to @${action.sequence}`,
    lines: [
      line("Files", rebuilds === "" ? fileTexts(files) : [`The worktree ${rebuilds} is gone, and is created again.`]),
      ...(untouched.length === 0 ? [] : [line("Left alone", untouched.slice(0, MAX_PATHS))]),
      line(
        "State",
        whole ? [`Back to ${place}. What was spent stays spent.`] : ["Does not change: only these files are restored."],
      ),
      line("Conversation", [whole ? "The next agent call continues from that of the checkpoint." : "Does not change."]),
      line(
        "Effects",
        later.length === 0
          ? ["None came after it."]
          : later.map(({ kind, target: on }) => `Stays done: ${kind.replaceAll("_", " ")} on ${on}`),
        later.length > 0,
      ),
      ...(lost.length === 0 ? [] : [line("Cannot return", lost.slice(0, MAX_PATHS), true)]),
      ...(exposed.length === 0 ? [] : [line("No longer ignored", exposed.slice(0, MAX_PATHS), true)]),
      ...textsOf(doc["toolchain"]).map((text) => line("Programs", [text], true)),
      ...unsavedLines(asRecords(files["changes"]), unsaved),
      line("Before that", [`The present files and state are saved as ${nextOf(row)}.`]),
      ...(whole ? [line("Then", [afterRestore(row, command)])] : []),
    ],
    undo: `Restore ${nextOf(row)}.`,
    button: `Restore to @${action.sequence}`,
    basis: [files, lost, rebuilds, checkpoint?.digest, row.run.entries],
  };
}

/** Files that the restore changes and whose present content is in no checkpoint. */
function unsavedLines(changes: readonly JsonRecord[], unsaved: readonly string[]): readonly Line[] {
  const found = changes.map(({ path }) => asText(path)).filter((path) => unsaved.includes(path));
  const texts = found
    .slice(0, MAX_PATHS)
    .map((path) => `${path} has changes that no checkpoint has; they are saved first.`);
  return texts.length === 0 ? [] : [line("Not saved yet", texts, true)];
}

/** The checkpoint that a restore saves before it begins. The plan holds only while the run has no other new entry. */
function nextOf({ run: { latest } }: RunRow): string {
  return latest === null ? "a checkpoint" : `@${latest.sequence + 1}`;
}

/** A restore starts nothing, and an end stays until the user continues the run. */
function afterRestore({ run: { id, status } }: RunRow, command: PlanFacts["command"]): string {
  if (status.kind === "saved") return "Nothing continues it: no workflow executes it.";
  if (!isEnded(status)) return "The run is not continued. Resume does that.";
  return `The run stays ${status.kind}. To continue from there: ${command("resume", `${id}@latest`, "--force")}`;
}

function fileTexts(files: JsonRecord): readonly string[] {
  const changes = asRecords(files["changes"]);
  if (changes.length === 0) return ["No file has to change."];
  const count = (kinds: readonly string[]): number => changes.filter(({ kind }) => kinds.includes(asText(kind))).length;
  const written = count(["write", "create", "respell", "mode"]);
  const head = `${countText(written, "file")} written, ${count(["remove"])} removed`;
  const names = changes.slice(0, MAX_PATHS).map(({ kind, path }) => `${MARKS[asText(kind)] ?? "~"} ${asText(path)}`);
  const more = changes.length - names.length;
  return [head, ...names, ...(more > 0 ? [`… and ${more} more`] : [])];
}

const MARKS: Readonly<Record<string, string>> = { write: "~", create: "+", remove: "−", respell: "~", mode: "~" };

function changedText(count: number): string {
  return count === 0
    ? "The same as in the newest checkpoint."
    : `${countText(count, "file")} changed since the newest one.`;
}

function skippedLines(doc: JsonRecord): readonly Line[] {
  const skipped = asRecords(doc["skipped"]).map(({ path, why, reason }) => `${asText(path)}: ${asText(why ?? reason)}`);
  return skipped.length === 0 ? [] : [line("Not saved", skipped.slice(0, MAX_PATHS), true)];
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

/** What the last command printed, in one sentence, and the action that takes it back. */
export function resultText(
  action: Action,
  document: JsonRecord,
): { readonly text: string; readonly undo: Action | null; readonly run: string | null } {
  const { text, undo, run = null } = doneText(action, document);
  return { text, undo, run };
}

/** Whether a resume found changes that the user must decide about, and did nothing. */
export function asksAgain(document: JsonRecord): boolean {
  return asRecord(document["result"])["kind"] === "ask";
}

const ASKS = "The run does not continue yet: what changed since it stopped needs you.";

function doneText(
  action: Action,
  document: JsonRecord,
): { readonly text: string; readonly undo: Action | null; readonly run?: string } {
  switch (action.kind) {
    case "answer":
      if (asksAgain(document)) return { text: `Answered. ${ASKS}`, undo: null, run: action.run };
      return { text: action.resume ? "Answered; the run continues." : "Answered.", undo: null };
    case "pause":
    case "abort": {
      const said = asText(document["result"]);
      const word = action.kind === "pause" ? "paused" : "aborted";
      return { text: said === "pending" ? `It will be ${word} soon.` : `The run is ${word}.`, undo: null };
    }
    case "checkpoint":
      return { text: `Saved ${asText(asRecord(document["checkpoint"])["id"])}.`, undo: null };
    case "remove":
      return { text: "The run is removed.", undo: null };
    case "resume":
    case "raise":
      if (asksAgain(document)) return { text: ASKS, undo: null, run: action.run };
      return { text: "The run continues in the background.", undo: null };
    case "restore":
    case "cherry_pick": {
      const report = asRecord(document["report"]);
      const before = asRecord(report["undo"])["sequence"];
      if (document["report"] === null) return { text: "Nothing had to change.", undo: null };
      const run = action.kind === "restore" ? action.run : action.into;
      const [written, removed] = [Number(report["written"] ?? 0), Number(report["removed"] ?? 0)];
      const counts =
        written + removed === 0 ? "no file changed" : `${countText(written, "file")} written, ${removed} removed`;
      const what = action.kind === "restore" ? `Restored to @${action.sequence}` : "Copied";
      return typeof before === "number"
        ? {
            text: `${what}: ${counts}. Saved before as @${before}.`,
            undo: { kind: "restore", run, sequence: before, paths: null },
          }
        : { text: `${what}: ${counts}.`, undo: null };
    }
    case "fork": {
      const id = asText(asRecord(document["run"])["id"]);
      const run = `${action.run.split("/")[0] ?? ""}/${id}`;
      return { text: `Forked as ${id}. Resume it to start.`, undo: null, run };
    }
    case "tag":
      return { text: `Tagged as ${action.name}.`, undo: { ...action, kind: "untag" } };
    case "untag":
      return { text: `The tag ${action.name} is removed.`, undo: { ...action, kind: "tag" } };
    case "choose": {
      const { id, tag } = asRecord(document["choice"]);
      const sequence = Number(/@(\d+)$/.exec(asText(id))?.[1] ?? 0);
      return {
        text: `${asText(id)} is chosen: it has the tag "${asText(tag)}". Next: continue it, and remove the runs that you do not need.`,
        undo: sequence === 0 ? null : { kind: "untag", run: action.run, sequence, name: asText(tag) },
        run: action.run,
      };
    }
  }
}
