// The objects that the server of `holdfast ui` sends to its page, and those that the page sends back. Both sides import these types.
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { JsonChange } from "@holdfast/core/diff-json";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { RunSummary } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";

/** `POST /api/session` with the one-time code of the address that `holdfast ui` opens. Every other request has `Authorization: Bearer TOKEN`. */
export interface Session {
  readonly token: string;
}

/** The body of every answer with a status from 400 on, except 409 of `apply`. */
export interface Failure {
  readonly error: Problem;
}

/**
 * `GET /api/boot`, which needs the session token like every other request.
 *
 * Every answer with runs has `asOf`, the server's time at the start of reading.
 */
export interface Boot {
  readonly version: string;
  readonly readOnly: boolean;
  readonly repositories: readonly Repository[];
  readonly asOf: string;
}

export interface Repository {
  /** In addresses: `shop`, or `shop~1f3a` when two repositories have the same name. */
  readonly key: string;
  readonly name: string;
  /** Shown to the user, who may have two clones. Never sent back. */
  readonly path: string;
  /** How a command for this repository begins, in any directory: `holdfast --cwd /home/me/shop`. */
  readonly program: string;
  /** Why its runs cannot be read; null: they can. */
  readonly problem: Problem | null;
}

/** The error object of the CLI's `--json`. `command`: what the user can do about it. */
export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
  readonly command: string | null;
}

/** The run object of `holdfast list --json`, field by field. */
export interface RunObject extends Pick<
  RunSummary,
  | "id"
  | "workflow"
  | "work"
  | "checkpoints"
  | "latest"
  | "createdAt"
  | "forkedFrom"
  | "labels"
  | "entries"
  | "unfinishedRestore"
> {
  readonly status: RunStatus;
  readonly stage: string | null;
  readonly iteration: number;
}

/** Who must act: the groups of the list of runs, in their order. */
export type Group = "you" | "running" | "waiting" | "finished";

export interface RunRow {
  /** `<repository>/<run>`. */
  readonly key: string;
  readonly repository: string;
  readonly run: RunObject;
  /** The word of `holdfast list`. */
  readonly statusWord: string;
  readonly group: Group;
  /** `#42 Login fails`, the first line of a task, or the run's id. */
  readonly title: string;
  /** Why it needs the user, or why it stopped, in one sentence; null: nothing to say. */
  readonly reason: string | null;
  readonly step: { readonly title: string; readonly since: string } | null;
  readonly scores: readonly number[];
  readonly checks: readonly { readonly name: string; readonly trail: readonly boolean[] }[];
  readonly budget: Budget | null;
  readonly branch: string | null;
  readonly pullRequest: Link | null;
  readonly issue: Link | null;
  readonly crashes: number;
  /** The last line that its agent or its process has written, while it runs. */
  readonly said: string | null;
  /** What its own calls cost. A fork's budget has what came before it too. */
  readonly ownMicroUsd: number;
  /** The checkpoint to which an ended run was restored since; null: it is at its end. */
  readonly restored: number | null;
  /** Who continues it if it waits; null: only the user does. */
  readonly continues: "process" | "worker" | null;
  readonly updatedAt: string;
  /** Sequences of the newest checkpoints that cannot be read. */
  readonly damaged: readonly number[];
}

/** `url` is null unless it is an http or https address. */
export interface Link {
  readonly text: string;
  readonly url: string | null;
}

/** Unknown amounts are null. A limit of null is no limit. */
export interface Budget {
  readonly spent: Amounts;
  readonly reserved: Amounts;
  readonly limit: Amounts;
  /** Calls whose cost or tokens are not known, and not in `spent`. */
  readonly unknown: { readonly microUsd: number; readonly tokens: number };
  /** While a process works, its time counts on since then; null: it stands still. */
  readonly countsSince: string | null;
}
export interface Amounts {
  readonly microUsd: number | null;
  readonly tokens: number | null;
  readonly milliseconds: number | null;
}

/** `GET /api/runs?repo=&status=&workflow=&q=&limit=`. The limit is for finished runs; the others are always complete. */
export interface RunsPage {
  readonly asOf: string;
  readonly counts: Readonly<Record<Group, number>>;
  readonly rows: readonly RunRow[];
  /** A larger limit gives more rows. */
  readonly more: boolean;
  /** Repositories that could not be read, or not in time. */
  readonly problems: readonly { readonly repository: string; readonly problem: Problem }[];
}

/** `GET /api/inbox`: what waits for the user: questions first, then what stopped, the oldest first. */
export interface Inbox {
  readonly asOf: string;
  readonly items: readonly InboxItem[];
  /** Repositories that could not be read, or not in time: runs that need the user may be missing. */
  readonly problems: RunsPage["problems"];
}
export interface InboxItem {
  readonly row: RunRow;
  readonly kind:
    | "question"
    | "findings"
    | "unknown_effect"
    | "budget"
    | "failed"
    | "crashed"
    | "damaged"
    | "due"
    | "orphan";
  readonly title: string;
  /** Text for the decision: a diff of the issue's text, the end of a failed check's output. */
  readonly evidence: readonly Evidence[];
  readonly options: readonly InboxOption[];
  /** Runs whose comparison helps to decide; empty: there are none. */
  readonly compare: readonly string[];
}
export interface Evidence {
  readonly title: string;
  readonly kind: "diff" | "output" | "text";
  readonly lines: readonly string[];
}
/** `about`: what the answer does. `risky`: it loses or spends something, so it is never preselected. */
export interface InboxOption {
  readonly label: string;
  readonly about: string;
  readonly risky: boolean;
  readonly action: Action;
}

/** `GET /api/runs/KEY`. */
export interface RunPage {
  readonly asOf: string;
  readonly row: RunRow;
  readonly worktree: string | null;
  readonly reasonCard: ReasonCard | null;
  readonly inbox: InboxItem | null;
  /** The last restore, cherry-pick or tag if it can still be undone. */
  readonly undo: { readonly text: string; readonly action: Action } | null;
  readonly actions: readonly AllowedAction[];
  readonly graph: TaskGraph | null;
  /** null: no team works on it, or nothing was said yet. */
  readonly team: Team | null;
  /** What the engine noted: an adopted call, a retry, unexpected changes. */
  readonly notes: readonly { readonly at: string; readonly text: string }[];
  readonly issueText: { readonly before: string; readonly now: string | null } | null;
  readonly command: string;
}
/** The parts of the graph of `holdfast status --json` that the page shows. */
export interface TaskGraph {
  /** Ids of nodes that can run at the same time. */
  readonly batches: readonly (readonly string[])[];
  readonly nodes: readonly {
    readonly id: string;
    readonly agent: string;
    readonly action: string;
    readonly state: "complete" | "running" | "interrupted" | "failed" | "unknown" | "skipped" | "queued" | "pending";
    readonly critical: boolean;
    readonly waitsFor: readonly string[];
    /** Why it failed or was skipped. */
    readonly reason: string | null;
  }[];
}
/** What the agents of a team wrote to each other, and where they disagreed. The newest of each, oldest first. */
export interface Team {
  readonly conflicts: readonly TeamConflict[];
  readonly messages: readonly TeamMessage[];
}
export interface TeamMessage {
  readonly at: string;
  readonly from: string;
  /** An agent, `user`, or `*` for all agents. */
  readonly to: string;
  readonly kind: string;
  readonly status: "pending" | "awaiting" | "delivered" | "answered" | "withdrawn";
  readonly text: string;
}
export interface TeamConflict {
  readonly id: string;
  readonly topic: string;
  readonly at: string;
  readonly choices: readonly string[];
  /** Each round has at most one vote of an agent. */
  readonly votes: readonly {
    readonly round: number;
    readonly agent: string;
    readonly choice: string;
    readonly why: string;
    /** From 0 to 100. */
    readonly confidence: number;
    readonly veto: string | null;
  }[];
  /** The question that it waits for; null: it asks nothing. */
  readonly asks: string | null;
  /** null: it is not settled. */
  readonly outcome: {
    readonly how: "agreement" | "compromise" | "vote" | "veto" | "you";
    readonly choice: string;
    readonly why: string;
    /** Agents that still prefer another choice, each with it. */
    readonly against: readonly string[];
  } | null;
}
export interface ReasonCard {
  /** What it explains: why the run stopped, why it waits, or where it runs. */
  readonly title: string;
  readonly cause: string;
  readonly why: string | null;
  /** The last lines of the failing check. */
  readonly tail: readonly string[];
  readonly commands: readonly string[];
}

/** `GET /api/runs/KEY/timeline`. Made by one pure function from the journal. */
export interface Timeline {
  readonly from: string;
  readonly to: string;
  readonly spans: readonly Span[];
  /** How many short spans are left out, because there are too many to show. */
  readonly omitted: number;
  readonly marks: readonly Mark[];
  /** Idle time that the page folds. */
  readonly gaps: readonly { readonly from: string; readonly to: string; readonly reason: string }[];
  /** Money and tokens spent until a moment, and the scores, for the curves. */
  readonly curves: {
    readonly spent: readonly {
      readonly at: string;
      readonly microUsd: number | null;
      readonly tokens: number | null;
    }[];
    readonly scores: readonly { readonly at: string; readonly iteration: number; readonly score: number }[];
  };
}
export interface Span {
  readonly id: string;
  readonly parent: string | null;
  readonly kind: "stage" | "step" | "agent" | "check" | "effect" | "wait";
  readonly name: string;
  /** A sentence for a screen reader and for the story on a phone. */
  readonly text: string;
  readonly iteration: number;
  readonly attempt: number;
  readonly startedAt: string;
  /** null: it is not over. */
  readonly endedAt: string | null;
  readonly result: "done" | "failed" | "interrupted" | "open";
  readonly score: number | null;
  readonly spent: Amounts | null;
  /** First and last journal entry. */
  readonly entries: readonly [number, number];
}
export interface Mark {
  readonly kind: "checkpoint" | "crash" | "restore" | "undo" | "answer" | "tag" | "fork" | "effect";
  readonly at: string;
  readonly entry: number;
  /** The sequence of a checkpoint, or the target of a restore. */
  readonly sequence: number | null;
  readonly text: string;
}

/** `GET /api/runs/KEY/entries?after=|before=&limit=`: headers. `GET /api/runs/KEY/entries/N`: a header with its body. */
export interface EntriesPage {
  readonly entries: readonly EntryHeader[];
  readonly next: number | null;
}
export interface EntryHeader {
  readonly entry: number;
  readonly kind: string;
  readonly at: string;
  readonly epoch: number;
  readonly text: string;
}
export interface Entry extends EntryHeader {
  readonly body: JsonObject;
}

/** `GET /api/runs/KEY/checkpoints?before=&limit=`. */
export interface CheckpointsPage {
  readonly checkpoints: readonly CheckpointSummary[];
  readonly next: number | null;
}
/** `GET /api/runs/KEY/checkpoints/N`. Large values come with their size, and the text on request. */
export interface CheckpointPage {
  readonly run: string;
  readonly checkpoint: CheckpointSummary;
  /** When it was taken, in words: `between stages`. */
  readonly saved: string;
  /** Whether its digests and git objects were checked just now, and what is wrong. */
  readonly integrity: { readonly whole: boolean; readonly problems: readonly string[] };
  readonly files: {
    readonly tree: string;
    readonly head: string | null;
    readonly branch: string | null;
    readonly notSaved: readonly { readonly path: string; readonly why: string }[];
  } | null;
  readonly state: Json;
  readonly conversation: {
    readonly agent: string;
    readonly session: string | null;
    readonly bytes: number;
    readonly href: string | null;
  } | null;
  readonly effects: readonly EffectRow[];
  readonly actions: readonly AllowedAction[];
  readonly command: string;
}
/** `GET /api/runs/KEY/effects`. */
export interface EffectRow {
  readonly key: string;
  readonly kind: string;
  readonly at: string;
  /** The journal entry that put it in this state. */
  readonly entry: number;
  readonly state: "intended" | "done" | "failed" | "unknown" | "undone";
  readonly text: string;
  readonly link: Link | null;
  readonly receipt: Json;
}

/** `GET …/transcript?offset=&limit=` and `GET …/logs/N?offset=&limit=`: masked text. A negative offset counts from the end. */
export interface TextRange {
  readonly offset: number;
  readonly text: string;
  readonly next: number;
  readonly bytes: number;
}
/** `GET /api/runs/KEY/logs`. `number` names the log as long as it exists. */
export interface LogRow {
  readonly number: number;
  readonly step: string;
  /** `impl #2`; null: the output belongs to no stage. */
  readonly stage: string | null;
  readonly bytes: number;
  readonly modifiedAt: string;
}

/** `GET /api/diff?a=ADDRESS&b=ADDRESS`: `shop/issue-42@5`; `b` may be `shop/issue-42@worktree`, `a` may be `shop/issue-42@base`. */
export interface Changes {
  readonly a: string;
  readonly b: string;
  /** null: one side has no files. */
  readonly files: readonly ChangedFile[] | null;
  readonly values: readonly JsonChange[];
  /** More values differ than these. */
  readonly moreValues: boolean;
  readonly conversation: { readonly messages: number; readonly text: string } | null;
  readonly effects: readonly EffectRow[];
  readonly notCompared: readonly string[];
  readonly command: string;
}
export interface ChangedFile {
  readonly path: string;
  readonly from: string | null;
  readonly status: "added" | "modified" | "deleted" | "renamed" | "type_changed";
  /** null: binary. */
  readonly added: number | null;
  readonly removed: number | null;
}
/** `GET /api/diff/file?a=&b=&path=`: one file as a patch. */
export interface FilePatch {
  readonly path: string;
  readonly patch: string;
  readonly truncated: boolean;
}

/** `GET /api/compare?runs=KEY,KEY@7`: the document of `holdfast compare --json`, and what may be done. */
export interface ComparePage {
  readonly rows: readonly RunRow[];
  readonly comparison: Comparison;
  readonly choose: readonly AllowedAction[];
  /** The keys of the runs that were chosen. */
  readonly chosen: readonly string[];
  readonly command: string;
}
/** The parts of the comparison that the page shows. */
export interface Comparison {
  /** In the order of the request. */
  readonly runs: readonly ComparedRun[];
  readonly pairs: readonly {
    readonly a: string;
    readonly b: string;
    readonly code: CodeSize | null;
    readonly diverged: {
      readonly common: { readonly run: string; readonly sequence: number } | null;
      readonly beginning: "checkpoint" | "alike" | "none";
      readonly first: {
        readonly shared: number;
        readonly kind: "step" | "result" | "length";
        readonly a: { readonly name: string } | null;
        readonly b: { readonly name: string } | null;
      } | null;
    };
  }[];
  /** The best runs of a dimension, by their `id`. */
  readonly best: readonly { readonly dimension: string; readonly ids: readonly string[] }[];
}
export interface ComparedRun {
  readonly id: string;
  readonly run: string;
  readonly sequence: number | null;
  readonly stage: string | null;
  readonly iteration: number;
  readonly calls: number;
  readonly failures: number;
  readonly checks: readonly { readonly name: string; readonly trail: readonly boolean[] }[];
  readonly score: number | null;
  readonly scoreTrail: readonly number[];
  /** Unknown amounts are null. */
  readonly spent: { readonly microUsd: number | null; readonly tokens: number | null };
  readonly ownSpent: { readonly microUsd: number | null; readonly tokens: number | null } | null;
  readonly time: { readonly work: number; readonly wall: number };
  readonly effects: readonly object[];
  /** Of a checkpoint: the one that it knows. */
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** What `code` is compared with: a checkpoint or a commit. */
  readonly base: { readonly name: string } | null;
  readonly code: CodeSize | null;
}
export interface CodeSize {
  readonly files: number;
  readonly added: number;
  readonly removed: number;
}

/** What the page may do. The server turns each into one command of the CLI, and runs that command. */
export type Action =
  | {
      readonly kind: "answer";
      readonly run: string;
      readonly question: string;
      readonly answer: string;
      /** Recorded in the journal with the answer. Agents do not read it. */
      readonly note: string | null;
      readonly resume: boolean;
    }
  | { readonly kind: "pause" | "abort" | "checkpoint" | "remove"; readonly run: string }
  /** `from`: the checkpoint that a run which has ended continues from; null: the run has not ended. */
  | {
      readonly kind: "resume";
      readonly run: string;
      readonly accept: readonly string[];
      readonly from: number | null;
    }
  | {
      readonly kind: "raise";
      readonly run: string;
      readonly limit: "microUsd" | "tokens" | "milliseconds" | "iterations";
      readonly to: number;
    }
  | {
      readonly kind: "restore";
      readonly run: string;
      readonly sequence: number;
      readonly paths: readonly string[] | null;
    }
  | { readonly kind: "fork"; readonly run: string; readonly sequence: number; readonly as: string | null }
  | { readonly kind: "tag" | "untag"; readonly run: string; readonly sequence: number; readonly name: string }
  | { readonly kind: "choose"; readonly run: string; readonly others: readonly string[] }
  | {
      readonly kind: "cherry_pick";
      readonly from: string;
      readonly sequence: number;
      readonly into: string;
      readonly paths: readonly string[];
    };

/** `why`: why it is not possible now; null: it is. A tag without a name: the page asks for it. */
export interface AllowedAction {
  readonly label: string;
  readonly action: Action;
  readonly why: string | null;
}

/** `POST /api/plans` with an Action. Nothing has happened yet. */
export interface Plan {
  readonly id: string;
  /** Covers what the plan was made from. Sent back with `apply`. */
  readonly digest: string;
  readonly action: Action;
  readonly title: string;
  /** Files, state, conversation, effects, and what else applies, each in plain words. */
  readonly lines: readonly { readonly title: string; readonly texts: readonly string[]; readonly warns: boolean }[];
  readonly undo: string | null;
  readonly button: string;
  /** The same by the CLI. */
  readonly command: string;
  readonly expiresAt: string;
}
/** `POST /api/plans/ID/apply`. */
export interface ApplyRequest {
  readonly digest: string;
  /** Chosen by the page: a repeated request with the same key is done once, and gets the same answer. */
  readonly key: string;
}
/** 409 with `plan` if what the plan was made from has changed. */
export type ApplyResult =
  /** `run`: the key of a run that the action made. */
  | { readonly kind: "done"; readonly text: string; readonly undo: Action | null; readonly run: string | null }
  | { readonly kind: "failed"; readonly problem: Problem }
  | { readonly kind: "changed"; readonly plan: Plan };

/** `GET /api/events?topics=runs,run:KEY,log:KEY`, as server-sent events. */
export type LiveEvent =
  | { readonly event: "run"; readonly data: RunRow }
  | { readonly event: "entry"; readonly data: EntryHeader & { readonly key: string } }
  /** A log has grown. The page reads as much of it as it can show. */
  | { readonly event: "log"; readonly data: { readonly key: string; readonly row: LogRow } }
  | { readonly event: "removed"; readonly data: { readonly key: string } }
  /** Fetch again what is shown: every stream begins so, and later the server may not know what changed. */
  | { readonly event: "resync"; readonly data: { readonly reason: string } }
  | { readonly event: "ping"; readonly data: { readonly asOf: string } };

/** `GET /api/runs/KEY/report`: the whole story of a run on one page. `holdfast format export --to html` writes the same. */
export interface Report {
  readonly page: RunPage;
  readonly timeline: Timeline;
  readonly checkpoints: readonly CheckpointSummary[];
  readonly effects: readonly EffectRow[];
  /** What differs from the base; null: there is nothing to compare. */
  readonly files: readonly ChangedFile[] | null;
  /** Of the first files, as many as a reader can use. */
  readonly patches: readonly FilePatch[];
}
