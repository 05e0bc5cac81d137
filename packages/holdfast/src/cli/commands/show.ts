/** The `show` command: shows a run, or one checkpoint with all its planes. */
import type { Checkpoint, CheckpointSummary, ConversationPlane, FilesPlane, Planes } from "@holdfast/core/checkpoint";
import type { Effect } from "@holdfast/core/effects";
import type { Graph } from "@holdfast/core/graph";
import type { Amounts } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import { type RunStatus, isHalfRestored } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { byteText } from "@holdfast/core/store-size";
import { type GraphPicture, pictureGraph } from "../../graph-view.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { mermaidText } from "../output/graph-text.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { costText, countText, relativeTime, scoreText, spentKnown, tokensSpentText } from "../output/quantities.ts";
import {
  checkpointsText,
  reasonLine,
  skippedLine,
  skippedPaths,
  stageText,
  statusCell,
  unfinishedRestoreText,
  workText,
} from "../output/run-text.ts";
import { escapeText, fieldsText, momentText, sectionText, truncate } from "../output/text.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "show",
  summary: "show a run, or one checkpoint with all its planes",
  details: ["Without an argument: the run of this worktree, or the newest one."],
  operands: [
    {
      name: "ADDRESS",
      about: "RUN for a run; RUN@7, RUN@latest or RUN@tag for a checkpoint",
      required: false,
      completes: "address",
    },
  ],
  consent: "reads",
  flags: {
    values: {
      type: "boolean",
      about: "print only the saved state, as JSON (of the latest checkpoint when a run is named)",
    },
    graph: {
      type: "boolean",
      about: "print only the task graph, as a Mermaid flowchart: of a run as it stands now, of a checkpoint as it was",
    },
  },
  examples: [
    { line: "holdfast show fix-login", about: "where the run stands, who holds it, its last checkpoints" },
    { line: "holdfast show fix-login@3", about: "one checkpoint: files, position, conversation, effects" },
    { line: "holdfast show fix-login@latest --values | jq .plan", about: "the saved state, for another program" },
    { line: "holdfast show --graph issue-42 > graph.mmd", about: "the task graph, for a page that draws Mermaid" },
  ],
  reads: true,
  json: '{"run": {...}, "worktree": "path" or null, "checkpoints": [newest ten], "dropped": n, "effects": [{"key", "kind", "target", "state"}]}, or for a checkpoint {"checkpoint": {..., "planes": {..., "toolchain": {"lockfiles": {"path": digest}, "setup": digest of the commands or null, "node", "git", "agents": {"name": version}} if recorded}}}; with --values the state itself; with --graph {"of": "RUN or RUN@N", "graph": {as in status}, "edges": [...]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const address = input.operand(0);
  if (input.on("graph")) return await showGraph(shell, holdfast, address);
  if (address?.includes("@") === true || input.on("values")) {
    const checkpoint = await readCheckpoint(holdfast, address);
    return input.on("values") ? showValues(shell, checkpoint) : showCheckpoint(shell, checkpoint);
  }
  return showRun(shell, holdfast, address);
}

async function showRun(shell: Shell, holdfast: Holdfast, address: string | undefined): Promise<Exit> {
  const { id } = await holdfast.resolveRun(address);
  const { run, status } = await holdfast.runWithStatus(id);
  const handle = await holdfast.run(id);
  const [checkpoints, workspace, tombstones, ledger] = await Promise.all([
    handle.list({ limit: 10 }),
    handle.workspace(),
    handle.tombstones(),
    holdfast.store.listEffects(id),
  ]);
  const effects = ledger.map(({ key, kind, target, state }) => ({ key, kind, target, state: state.kind }));
  const shown = {
    run,
    status,
    worktree: workspace?.root ?? null,
    checkpoints,
    dropped: tombstones.length,
    effects,
  };
  const { worktree, dropped } = shown;
  shell.print({
    json: () => ({ run: runJson(shown), worktree, checkpoints, dropped, effects }),
    text: (page) => runText(shown, page),
  });
  shell.notify(nextText(shown, shell.talk));
  return "done";
}

async function readCheckpoint(holdfast: Holdfast, address: string | undefined): Promise<Checkpoint> {
  if (address?.includes("@") === true) {
    const found = await holdfast.resolve(address);
    return (await holdfast.run(found.run)).get(found.sequence);
  }
  const summary = await holdfast.resolveRun(address);
  const latest = await (await holdfast.run(summary.id)).latest();
  if (latest !== undefined) return latest;
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${summary.id} has no checkpoints yet`,
    hint: `Save one with \`holdfast checkpoint --run ${summary.id}\`.`,
  });
}

function showCheckpoint(shell: Shell, checkpoint: Checkpoint): Exit {
  shell.print({
    json: () => ({ checkpoint: checkpointJson(checkpoint) }),
    text: (page) => checkpointText(checkpoint, page),
  });
  return "done";
}

function checkpointJson(checkpoint: Checkpoint) {
  const { planes } = checkpoint;
  const { position } = planes;
  const budget = { ...position.budget, spent: spentKnown(position.budget.spent) };
  return { ...checkpoint, planes: { ...planes, position: { ...position, budget } } };
}

/** Prints JSON with and without --json: this is data for another program. */
function showValues(shell: Shell, checkpoint: Checkpoint): Exit {
  const { values } = checkpoint.planes.context;
  const text = `${JSON.stringify(values, null, 2)}\n`;
  shell.print({ json: () => values, text: () => text, verbatim: true });
  return "done";
}

interface ShownRun {
  readonly run: RunSummary;
  readonly status: RunStatus;
  readonly worktree: string | null;
  /** The newest ten checkpoints. */
  readonly checkpoints: readonly CheckpointSummary[];
  readonly dropped: number;
  readonly effects: readonly (Pick<Effect, "key" | "kind" | "target"> & { readonly state: Effect["state"]["kind"] })[];
}

export function runText(shown: ShownRun, page: Page): string {
  const { run, status } = shown;
  const { text, style } = statusCell(status);
  const title = `${paint(page, "bold", escapeText(run.id))}  ${paint(page, style, text)}\n`;
  const fields = fieldsText(
    [
      ["why", reasonLine(status, page)],
      ["work", workText(run.work)],
      ["workflow", run.workflow],
      ["stage", run.latest === null ? null : stageText(run.latest)],
      ["created", momentText(run.createdAt, page)],
      ["saved", run.latest === null ? null : momentText(run.latest.createdAt, page)],
      ["forked from", run.forkedFrom?.id ?? null],
      ["worktree", shown.worktree],
      [status.kind === "crashed" ? "left by" : "held by", leaseText(status, page)],
      ["journal", countText(run.entries, "entry", "entries")],
      [
        "dropped",
        shown.dropped === 0
          ? null
          : `${countText(shown.dropped, "checkpoint")} by retention (${page.program} events ${run.id})`,
      ],
    ],
    page,
  );
  const some =
    shown.checkpoints.length < run.checkpoints ? ` (newest ${shown.checkpoints.length} of ${run.checkpoints})` : "";
  const body = shown.checkpoints.length === 0 ? "" : checkpointsText(shown.checkpoints, page);
  const effects = shown.effects.map(({ kind, target, state }) => `  ${escapeText(`${state}: ${kind} on ${target}`)}\n`);
  return [
    title,
    isHalfRestored({ ...run, status }) ? unfinishedRestoreText(run, page) : "",
    fields,
    sectionText(`Checkpoints${some}`, body, page),
    sectionText("Effects", effects.join(""), page),
  ].join("");
}

function leaseText(status: RunStatus, page: Page): string | null {
  if (!("holder" in status) || status.holder === null) return null;
  const { label, pid, host, heartbeatAt } = status.holder;
  if (status.kind === "crashed") return `pid ${pid} on ${host}, which ended unexpectedly`;
  return `${label} (pid ${pid} on ${host}), last heartbeat ${relativeTime(heartbeatAt, page.now)}`;
}

/** Printed to stderr: the commands that the user may type next. */
function nextText(shown: ShownRun, page: Page): string {
  const [latest] = shown.checkpoints;
  return latest === undefined
    ? `Save its first checkpoint with: ${page.program} checkpoint --run ${shown.run.id}`
    : `One of them in full: ${page.program} show ${latest.id}`;
}

export function checkpointText(checkpoint: Checkpoint, page: Page): string {
  const { planes } = checkpoint;
  const name = checkpoint.name === null ? "" : `  ${escapeText(checkpoint.name)}`;
  const tags = checkpoint.tags.map((tag) => `  ${paint(page, "yellow", `@${escapeText(tag)}`)}`).join("");
  const head = fieldsText(
    [
      ["damaged", checkpoint.quarantined ? `quarantined: no run resumes from it (${page.program} verify)` : null],
      ["taken", momentText(checkpoint.createdAt, page)],
      ["trigger", checkpoint.trigger],
      ["parent", checkpoint.parent?.id ?? null],
      [
        "size",
        `${byteText(checkpoint.size.logical)} besides the files, ${byteText(checkpoint.size.added)} added to the store`,
      ],
      ["digest", checkpoint.digest],
    ],
    page,
  );
  return [
    `${paint(page, "bold", escapeText(checkpoint.id))}${tags}${name}\n`,
    head,
    sectionText(
      "Files",
      planes.files === null ? "  not saved in this checkpoint\n" : filesText(planes.files, page),
      page,
    ),
    sectionText("Position", positionText(planes, page), page),
    sectionText("State", stateText(planes, page), page),
    sectionText("Conversation", conversationText(planes, page), page),
    sectionText("Effects", effectsText(planes, page), page),
    sectionText("Inputs", inputsText(planes, page), page),
    sectionText("Config", configText(planes, page), page),
    sectionText("Toolchain", toolchainText(planes, page), page),
  ].join("");
}

function filesText(files: FilesPlane, page: Page): string {
  const fields = fieldsText(
    [
      ["worktree", files.worktree],
      ["branch", files.branch?.replace(/^refs\/heads\//, "") ?? "(detached)"],
      ["head", files.head === null ? "(no commits)" : files.head.slice(0, 12)],
      ["tree", files.tree.slice(0, 12)],
      ["in progress", files.operation],
      ["changes", `${countText(files.artifactCount, "file")} against HEAD`],
    ],
    page,
    "  ",
  );
  const shown = files.artifacts.slice(0, SHOWN).map(({ path, status }) => lineText(MARKS[status], path, page));
  const hidden = files.artifactCount - shown.length;
  const more = hidden > 0 ? [`    … and ${hidden} more\n`] : [];
  const skipped = skippedPaths(files).map((left) => skippedLine(left, "not saved", page, "    "));
  return [fields, ...shown, ...more, ...skipped].join("");
}

const SHOWN = 10;
const MARKS: Readonly<
  Record<FilesPlane["artifacts"][number]["status"], { readonly mark: string; readonly style: Style }>
> = {
  created: { mark: "A", style: "green" },
  modified: { mark: "M", style: "yellow" },
  deleted: { mark: "D", style: "red" },
  unchanged: { mark: "=", style: "dim" },
};

function lineText(sign: { readonly mark: string; readonly style: Style }, text: string, page: Page): string {
  return `    ${paint(page, sign.style, sign.mark)} ${truncate(escapeText(text), page.width - 6)}\n`;
}

function positionText({ position }: Planes, page: Page): string {
  return fieldsText(
    [
      ["workflow", position.workflow],
      ["stage", stageText(position)],
      ["score", position.score === null ? null : scoreText(position.score)],
      [
        "best",
        position.best === null
          ? null
          : `${scoreText(position.best.score)} at ${position.best.run ?? ""}@${position.best.sequence}`,
      ],
      ["attempts", recordText(position.attempts)],
      ["streaks", recordText(position.streaks)],
      ["spent", amountsText(position.budget.spent)],
      [
        "graph",
        position.graph === null ? null : `${position.graph.id}, ${countText(position.graph.nodes.length, "node")}`,
      ],
      ["feedback", position.feedback],
    ],
    page,
    "  ",
  );
}

function stateText({ context }: Planes, page: Page): string {
  const keys = Object.keys(context.values);
  const shown = keys.length === 0 ? "empty" : `${countText(keys.length, "value")}: ${keys.join(", ")}`;
  return fieldsText(
    [
      ["values", shown],
      ["tokens", recordText(context.tokens)],
    ],
    page,
    "  ",
  );
}

function conversationText({ conversation }: Planes, page: Page): string {
  if (conversation === null) return "";
  return fieldsText(
    [
      ["agent", conversation.agent],
      ["session", conversation.session],
      ["transcript", transcriptText(conversation.transcript)],
      ["last", conversation.lastMessage],
    ],
    page,
    "  ",
  );
}

function transcriptText(transcript: ConversationPlane["transcript"]): string | null {
  return transcript === null ? null : `${byteText(transcript.bytes)}, ${transcript.digest.slice(0, 12)}`;
}

function effectsText({ effects }: Planes, page: Page): string {
  if (effects.pending.length === 0) return "";
  return fieldsText([["in flight", effects.pending.join(", ")]], page, "  ");
}

function inputsText({ inputs }: Planes, page: Page): string {
  const { issue } = inputs;
  return fieldsText(
    [
      ["issue", issue === null ? null : `#${issue.number} ${issue.title} (${issue.state})`],
      ["task", inputs.task],
      ["base", inputs.base],
      ["plan", inputs.plan?.path ?? null],
    ],
    page,
    "  ",
  );
}

function configText({ config }: Planes, page: Page): string {
  if (config.agent === null && config.model === null) return "";
  return fieldsText(
    [
      ["agent", config.agent],
      ["model", config.model],
      ["mode", config.seed === null ? config.mode : `${config.mode} (seed ${config.seed})`],
      ["tools", config.tools.join(", ")],
    ],
    page,
    "  ",
  );
}

function toolchainText({ toolchain }: Planes, page: Page): string {
  if (toolchain === undefined) return "";
  const { lockfiles, setup, node, git, agents } = toolchain;
  return fieldsText(
    [
      ["node", node],
      ["git", git],
      ...Object.entries(agents).map(([name, version]) => ["agent", `${name} ${version}`] as const),
      ["set-up", setup],
      ...Object.entries(lockfiles).map(([path, digest]) => ["lockfile", `${path} ${digest}`] as const),
    ],
    page,
    "  ",
  );
}

function recordText(record: Readonly<Record<string, number>>): string {
  return Object.entries(record)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}

function amountsText(spent: Amounts): string | null {
  const tokens = tokensSpentText(spent);
  const cost = costText(spent);
  const parts = [
    ...(tokens === null ? [] : [tokens]),
    ...(cost === null ? [] : [cost]),
    ...(spent.milliseconds > 0 ? [`${Math.round(spent.milliseconds / 1000)} s`] : []),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}

interface ShownGraph {
  /** The run or checkpoint that the graph belongs to. */
  readonly of: string;
  readonly graph: Graph;
  readonly picture: GraphPicture;
}

/** Mermaid text, or the graph as data under --json. Of a run: as it is now; of a checkpoint: as it was then. */
async function showGraph(shell: Shell, holdfast: Holdfast, address: string | undefined): Promise<Exit> {
  const shown =
    address?.includes("@") === true ? await graphThen(holdfast, address) : await graphNow(holdfast, address);
  const { graph, picture } = shown;
  shell.print({
    json: () => ({ of: shown.of, graph: picture, edges: graph.edges }),
    text: () => mermaidText(graph, picture),
    verbatim: true,
  });
  for (const problem of picture.problems) shell.notify(`The graph cannot be run: ${problem}`);
  if (picture.nodes.length > MANY)
    shell.notify(`Many viewers refuse drawings of this size; \`${shell.talk.program} status\` summarises it.`);
  return "done";
}

async function graphNow(holdfast: Holdfast, typed: string | undefined): Promise<ShownGraph> {
  const { id } = await findRun(holdfast, typed);
  const found = await holdfast.graph(id);
  if (found === null) throw noGraph(`Run ${id}`);
  return { of: id, ...found };
}

/** A node that ran when the checkpoint was taken is shown as running, regardless of its later state. */
async function graphThen(holdfast: Holdfast, address: string): Promise<ShownGraph> {
  const { run, sequence } = await holdfast.resolve(address);
  const { id, createdAt, planes } = await (await holdfast.run(run)).get(sequence);
  const { graph } = planes.position;
  if (graph === null) throw noGraph(`Checkpoint ${id}`);
  const moment = { live: true, now: Date.parse(createdAt), seenAt: createdAt };
  return { of: id, graph, picture: pictureGraph(graph, moment) };
}

function noGraph(what: string): HoldfastError {
  return usageError(
    `${what} has no task graph`,
    "Only workflows that split their work into nodes have one; `holdfast show` shows what there is.",
  );
}

/** Mermaid draws at most 500 edges and 50 000 characters by default. */
const MANY = 200;
