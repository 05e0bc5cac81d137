import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { openHoldfast } from "../../src/open.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import type { Position } from "@holdfast/core/position";
import { HoldfastError } from "@holdfast/platform/error";
import type { Store } from "@holdfast/core/store";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { systemCommands } from "@holdfast/core/commands";
import { withoutNonces } from "@holdfast/core/workflow";
import { readProcessTable } from "@holdfast/platform/process-tree";
import type { Scene } from "./scene.ts";

const RUN = "issue-1";

/** The final state, each part from its own source: files, remote, forge, journal, agents' processes. */
export interface FinalState {
  readonly state: string;
  readonly reason: string;
  readonly files: Readonly<Record<string, string>>;
  /** Tree of the branch here, and what is not committed. */
  readonly branch: string;
  readonly remote: string;
  readonly history: readonly string[];
  /** Every update of the run's branch, as the remote's log of it and as its hook saw it. */
  readonly pushes: { readonly reflog: number; readonly hook: number };
  readonly forge: readonly string[];
  readonly pull: string;
  readonly trail: readonly string[];
  readonly finished: readonly string[];
  readonly effects: readonly string[];
  readonly position: unknown;
  readonly spent: Position["budget"]["spent"] | null;
  readonly values: unknown;
  readonly calls: readonly string[];
  readonly problems: readonly string[];
}

export async function readFinalState(scene: Scene): Promise<FinalState> {
  await using holdfast = await openHoldfast({ cwd: scene.clone, create: false });
  const { store } = holdfast;
  const run = await store.getRun(RUN);
  const latest = await store.latest(RUN);
  const entries = await Array.fromAsync(store.readJournal({ run: RUN }));
  const { git } = scene;
  const head = await git("worktree", "symbolic-ref", "--short", "HEAD");
  const refs = await git("remote", "for-each-ref", "--format=%(refname) %(tree)", "refs/heads");
  const pushed = refs.includes(`refs/heads/${head} `);
  const forge = (await holdfast.work.adapters()).forge;
  const pull = pushed ? await forge?.findPullRequest(head) : null;
  const position = latest?.planes.position;
  const bare = (value: unknown): unknown => steady(JSON.parse(plain(scene, JSON.stringify(value ?? null))));
  return {
    state: run?.state.kind ?? "none",
    reason: plain(scene, JSON.stringify(run?.state.kind === "failed" ? run.state.reason : null)),
    files: await readFiles(scene),
    branch: `${await git("worktree", "rev-parse", "HEAD^{tree}")} ${await git("worktree", "status", "--porcelain")}`,
    remote: refs,
    history: (await git("worktree", "log", "--format=%s", "origin/main..HEAD")).split("\n"),
    pushes: {
      reflog: pushed ? (await git("remote", "reflog", "show", "--format=%H", head)).split("\n").length : 0,
      hook: (await scene.pushes()).length,
    },
    forge: (await readFile(join(scene.remote, "holdfast-forge/log.jsonl"), "utf8"))
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line))
      .map(({ what, number, key }) => plain(scene, `${what} ${number} ${key}`)),
    pull: plain(scene, JSON.stringify(pull ?? null)),
    trail: entries
      .filter(({ kind }) => kind === "stage.ended")
      .map(({ body }) => `${String(body["stage"])}:${String(body["event"])}`),
    finished: finishedIn(entries).map((step) => plain(scene, step)),
    effects: (await store.listEffects(RUN)).map(({ key, state }) => `${key} ${state.kind}`).toSorted(),
    position: bare(position === undefined ? null : comparable(position)),
    spent: position?.budget.spent ?? null,
    values: bare(latest?.planes.context.values),
    calls: await scene.calls(),
    problems: [
      ...(await verify(holdfast)),
      ...leftBehind(store.id),
      ...(await unfinished(scene)),
      ...(await sideWorktreesLeft(scene, head)),
      ...(await changedFence(store)),
    ],
  };
}

/** Steps that are recorded as finished, `<stage attempt>/<step>`: they must never be repeated. */
async function finishedSteps(scene: Scene): Promise<readonly string[]> {
  const found = await lookIntoStore(scene, async (store) => {
    const run = await store.getRun(RUN);
    return run === undefined ? [] : finishedIn(await Array.fromAsync(store.readJournal({ run: RUN })));
  });
  return found ?? [];
}

/**
 * What a resume finds: the steps of `finishedSteps`, and calls that ended well but are not recorded yet. Holdfast adopts the stored answer of
 * such a call instead of paying for it again.
 */
export async function stepsAtEnd(scene: Scene): Promise<{
  readonly finished: readonly string[];
  readonly answered: readonly string[];
  readonly calls: readonly string[];
}> {
  const folder = join(scene.clone, ".git/holdfast/logs", RUN);
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".answer"));
  const answered: string[] = [];
  for (const name of names) {
    const [, attempt, step] = /^(\d+)-([a-z]+)\.answer$/.exec(name) ?? [];
    const { ended } = JSON.parse(await readFile(join(folder, name), "utf8"));
    if (step !== undefined && ended?.outcome?.kind === "completed") answered.push(`${attempt}/${step}`);
  }
  return { finished: await finishedSteps(scene), answered, calls: await scene.calls() };
}

/** Processes of a scene's runs that live on. */
export async function orphans(scene: Scene): Promise<readonly string[]> {
  return (await lookIntoStore(scene, async ({ id }) => leftBehind(id))) ?? [];
}

/** Ends what a run that went wrong may have left. */
export async function clearProcesses(scene: Scene): Promise<void> {
  await lookIntoStore(scene, ({ id }) => systemCommands.endMarked(id));
}

/** undefined: the process that was to create the store died before. */
async function lookIntoStore<T>(scene: Scene, look: (store: Store) => Promise<T>): Promise<T | undefined> {
  const directory = join(scene.clone, ".git/holdfast");
  const store = await openSqliteStore({ directory, create: false }).catch((error: unknown) => {
    if (error instanceof HoldfastError && error.code === "STORE_ABSENT") return undefined;
    throw error;
  });
  try {
    return store === undefined ? undefined : await look(store);
  } finally {
    await store?.close();
  }
}

function finishedIn(
  entries: readonly { readonly kind: string; readonly body: Readonly<Record<string, unknown>> }[],
): readonly string[] {
  return entries.flatMap(({ kind, body }) =>
    kind === "step.finished" ? [`${String(body["stageAttempt"])}/${String(body["step"])}`] : [],
  );
}

/**
 * Without what rightly depends on the way: numbers of checkpoints (a rescue makes one more) and time. The fence is random in each run, so two runs
 * differ in it; `changedFence` checks that one run keeps its own.
 */
function comparable(position: Position): unknown {
  const { budget, stageAttempt, best, fence, ...rest } = position;
  return {
    ...rest,
    isFenced: fence !== undefined,
    best: best?.score ?? null,
    limit: budget.limit,
    reserved: budget.reserved,
    stageAttempt: { ...stageAttempt, steps: Object.keys(stageAttempt.steps).toSorted() },
  };
}

function plain(scene: Scene, text: string): string {
  return (
    withoutNonces(text)
      .replaceAll(scene.root, "ROOT")
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, "TIME")
      .replaceAll(/\b[0-9a-f]{40}\b/g, "COMMIT")
      .replaceAll(/\b(MSG|CONF|GRAPH|TEAM|KE-[a-z_]+)-\d[\dT]*-/g, "$1-WHEN-")
      .replaceAll(/\bMSG-WHEN-[0-9a-f]{8}/g, "MSG")
      .replaceAll(/\bTEAM-WHEN-[0-9a-f]{4}/g, "TEAM")
      .replaceAll(/"(durationMs|milliseconds)":\d+/g, '"$1":0')
      // A call that was killed with its process is reported as a call of unknown usage.
      .replaceAll(/ and calls of unknown (?:usage|price) \(\d+\)/g, "")
      .replaceAll(/ USD, \d+ s\./g, " USD, a while.")
      .replaceAll(/those of checkpoint \d+/g, "those of a checkpoint")
  );
}

/** Parallel work may be recorded in any order, so only the content is compared, not the order. */
function steady(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(steady);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => {
    const inner = steady(member);
    const sorted = UNORDERED.has(name) && Array.isArray(inner) ? inner.toSorted(byText) : inner;
    return [name, sorted] as const;
  });
  return Object.fromEntries(members.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const UNORDERED: ReadonlySet<string> = new Set(["records", "outputs", "entries", "captured", "conflicts"]);

function byText(a: unknown, b: unknown): number {
  const [one, other] = [JSON.stringify(a), JSON.stringify(b)];
  return one < other ? -1 : one > other ? 1 : 0;
}

async function readFiles(scene: Scene): Promise<Readonly<Record<string, string>>> {
  const files: Record<string, string> = {};
  for (const entry of await readdir(scene.worktree, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(scene.worktree.length + 1);
    if (!entry.isFile() || path === ".git" || path.startsWith(".tmp/")) continue;
    files[path] = await readFile(join(scene.worktree, path), "utf8");
  }
  return files;
}

async function verify(holdfast: Holdfast): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const event of holdfast.verify())
    if (event.kind === "problem") found.push(`verify: ${event.problem.code} ${event.problem.what}`);
  return found;
}

/** A resumed run derives its nonces from the same secret: another one would change the prompts of calls that it repeats. */
async function changedFence(store: Store): Promise<readonly string[]> {
  const checkpoints = await store.listCheckpoints({ run: RUN });
  const positions = await Promise.all(
    checkpoints.map(async ({ sequence }) => (await store.getCheckpoint({ run: RUN, sequence })).planes.position),
  );
  const fences = new Set(positions.map(({ fence }) => fence));
  return fences.size > 1 ? [`the run has ${fences.size} fences: ${[...fences].join(", ")}`] : [];
}

/** Marks of surviving processes. None of this store may survive. */
function leftBehind(store: string): readonly string[] {
  const live = readProcessTable()?.live ?? [];
  return live.flatMap(({ pid, mark }) =>
    mark?.startsWith(`${store}/`) === true ? [`process ${pid} of ${mark} is still there`] : [],
  );
}

/** Side worktrees, their folders, and refs outside the user's and the run's namespaces. */
async function sideWorktreesLeft(scene: Scene, head: string): Promise<readonly string[]> {
  const worktrees = (await scene.git("clone", "worktree", "list", "--porcelain")).match(/^worktree .*$/gm) ?? [];
  const folders = await readdir(join(scene.worktree, ".."));
  const heads = (await scene.git("clone", "for-each-ref", "--format=%(refname)", "refs/heads")).split("\n");
  return [
    ...worktrees.filter((line) => line.includes(".side/")).map((line) => `left: ${line}`),
    ...folders.filter((name) => name.includes(".side")).map((name) => `left: ${name}`),
    ...heads.filter((ref) => ref !== "refs/heads/main" && ref !== `refs/heads/${head}`).map((ref) => `left: ${ref}`),
  ];
}

/** What a killed process may have left lying where it disturbs others. */
async function unfinished(scene: Scene): Promise<readonly string[]> {
  const forge = await readdir(join(scene.remote, "holdfast-forge"));
  return forge.includes("pending.json") ? ["a change at the forge is half done"] : [];
}
