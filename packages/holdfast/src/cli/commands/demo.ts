/** The `demo` command: turns a demo issue into a pull request, kills the worker on the way, and proves the result. */
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JournalEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, isRecord, parseObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { displayWidth, escapeText, padEnd, wrap } from "../output/text.ts";
import { parseCount } from "../parse-arguments.ts";
import { DEMO_ISSUE, type DemoRepository, gitIn, makeDemoRepository } from "./demo-repository.ts";

export const spec = {
  name: "demo",
  summary: "watch a run survive three kills, in a temporary repository",
  details: [
    "Creates a small repository with a remote and an issue in a temporary directory, and turns the issue into a pull request with a scripted agent. The first review fails, the second passes. The process is killed with SIGKILL at three random points and resumed each time. At the end the demo checks that nothing was lost and nothing was done twice.",
    "Needs git and nothing else: no account, no network, no questions. Your own repository is not touched.",
  ],
  operands: [],
  consent: "reads",
  flags: {
    seed: { type: "text", value: "N", about: "selects the points where it is killed (default random)" },
    keep: { type: "boolean", about: "keep the directory for inspection" },
  },
  examples: [
    { line: "holdfast demo", about: "kill it at three random points" },
    { line: "holdfast demo --seed 7 --keep", about: "repeat the points of a seed, and keep the directory" },
    { line: "holdfast demo --json", about: "the proof as data" },
  ],
  json: '{"seed", "ok", "kills": [{"place", "stage", "iteration"}], "timeline": [...], "proof": [{"claim", "ok", "detail"}], "tree", "directory" or null}.',
} as const satisfies CommandSpec;

const KILLS = 3;
const RUN = "issue-1";
const BRANCH = `holdfast/${RUN}`;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const given = input.text("seed");
  const seed = given === undefined ? randomInt(1_000_000) : parseCount("seed", given);
  const directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-demo-")));
  const keep = input.on("keep");
  try {
    return await demonstrate(shell, { directory, seed, keep });
  } finally {
    if (!keep) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** So that `holdfast ui` shows the run that survived. */
async function registerDemo({ clone }: Pick<DemoRepository, "clone">, env: Shell["env"]): Promise<void> {
  const [{ openHoldfast }, { registerRepository }] = await Promise.all([
    import("../../open.ts"),
    import("../../repository-registry.ts"),
  ]);
  await using holdfast = await openHoldfast({ cwd: clone, create: false, readOnly: true });
  const { id, location: store } = holdfast.store;
  await registerRepository(env, { id, store, root: () => Promise.resolve(clone) }, Date.now());
}

async function demonstrate(
  shell: Shell,
  params: { readonly directory: string; readonly seed: number; readonly keep: boolean },
): Promise<Exit> {
  const { directory, seed, keep } = params;
  const print = (text: string): void => {
    if (!shell.json) shell.write(text);
  };
  print(
    `An issue becomes a pull request. On the way its process is killed with SIGKILL\nat ${KILLS} random places (seed ${seed}) and resumed each time.\n`,
  );
  print(headingText("A small repository, its remote, and an issue", shell.page));
  const [control, repository] = await Promise.all([
    makeDemoDirectory(directory, "control"),
    makeDemoDirectory(directory, "demo"),
  ]);
  print(`  #1 ${DEMO_ISSUE.title}\n`);
  print(headingText("First, to compare with: a run without a kill", shell.page));
  const calm = await runWorker(control, { death: null, resume: null });
  const { points, ends } = calm.kind === "ended" ? calm : { points: [], ends: 0 };
  const file = join(directory, "points.json");
  await writeFile(file, JSON.stringify(points));
  print(
    `  $ holdfast run 1\n  ${calm.kind === "ended" ? calm.outcome : "died"}; ${points.length} moments at which it could have been killed\n`,
  );
  print(headingText("Now with three kills", shell.page));
  const deaths = await workAndDie(
    repository,
    { points: file, kills: planKills(seed, { points: points.length, ends, kills: KILLS }) },
    (line) => print(line),
    shell,
  );
  const facts = await gatherFacts({ repository, control, deaths });
  const claims = prove(facts);
  const timeline = timelineOf(facts.entries, deaths);
  print(headingText("The timeline, from the journal", shell.page));
  print(timelineText(timeline, shell.page));
  print(headingText("The proof", shell.page));
  print(proofText(claims, shell.page));
  const ok = claims.every((claim) => claim.ok);
  const kept = keep ? directory : null;
  if (keep) await registerDemo(repository, shell.env);
  if (shell.json)
    shell.print({
      json: () => ({
        seed,
        ok,
        points: points.length,
        kills: deaths,
        timeline,
        proof: claims,
        tree: facts.tree,
        directory: kept,
      }),
      text: () => "",
    });
  else {
    if (kept !== null) print(`\nKept: ${escapeText(join(repository.clone))}\n`);
    print(
      ok
        ? "\nIn your own repository: holdfast run ISSUE --dry-run\n"
        : "\nThis must not happen. Please report it, with the seed.\n",
    );
  }
  return ok ? "done" : "failed";
}

/** Creates a demo repository with its issue below `directory`. */
export async function makeDemoDirectory(directory: string, name: string): Promise<DemoRepository> {
  const place = join(directory, name);
  await mkdir(place);
  const repository = await makeDemoRepository(place);
  const { openHoldfast } = await import("../../open.ts");
  await using holdfast = await openHoldfast({ cwd: repository.clone });
  const { forge } = await holdfast.work.adapters();
  await forge?.createIssue({ ...DEMO_ISSUE, labels: [], key: "demo" });
  return repository;
}

async function workAndDie(
  repository: DemoRepository,
  plan: { readonly points: string; readonly kills: readonly number[] },
  print: (line: string) => void,
  shell: Shell,
): Promise<readonly Death[]> {
  const deaths: Death[] = [];
  for (const at of [...plan.kills, null]) {
    shell.signal.throwIfAborted();
    const resume = deaths.length === 0 ? null : RUN;
    print(`  $ holdfast ${resume === null ? "run 1" : `resume ${resume}`}\n`);
    const end = await runWorker(repository, { death: at === null ? null : { points: plan.points, at }, resume });
    if (end.kind === "ended") {
      print(`  ${end.outcome}\n`);
      break;
    }
    deaths.push(end.death);
    const { stage, iteration, place } = end.death;
    print(markedText("✗", "red", `killed in ${stage}${iteration > 0 ? ` #${iteration}` : ""}, ${place}`, shell.page));
  }
  return deaths;
}

/** Gathers the facts for the proof. */
export async function gatherFacts(params: {
  readonly repository: DemoRepository;
  readonly control: DemoRepository;
  readonly deaths: readonly Death[];
}): Promise<DemoFacts> {
  const { repository, control, deaths } = params;
  const { openHoldfast } = await import("../../open.ts");
  await using holdfast = await openHoldfast({ cwd: repository.clone, create: false });
  const adapters = await holdfast.work.adapters();
  const entries: JournalEntry[] = [];
  for await (const entry of (await holdfast.run(RUN)).log()) entries.push(entry);
  const remote = gitIn(repository.remote, repository.env);
  const heads = (await remote("for-each-ref", "--format=%(refname:short)", "refs/heads")).split("\n");
  const treeOf = (world: DemoRepository) => gitIn(world.remote, world.env)("rev-parse", `refs/heads/${BRANCH}^{tree}`);
  let verified = { ok: false, entries: 0, checkpoints: 0 };
  for await (const event of holdfast.verify()) if (event.kind === "summary") verified = event;
  return {
    run: RUN,
    entries,
    branches: heads.filter((name) => name !== "main"),
    forgeLog: await readForgeLog(adapters.forge?.location ?? ""),
    verified,
    leftBehind: await holdfast.work.endProcesses(RUN),
    tree: await treeOf(repository),
    controlTree: await treeOf(control),
    deaths: deaths.length,
  };
}

async function readForgeLog(location: string): Promise<DemoFacts["forgeLog"]> {
  const text = await readFile(join(location, "log.jsonl"), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const { what, key }: { what?: unknown; key?: unknown } = JSON.parse(line);
      return { what: String(what), key: typeof key === "string" ? key : null };
    });
}

/**
 * The points at which the demo kills its worker: `kills` different indices of `points`, in order. They depend on the
 * seed alone, so that a user can report a seed and try it again. The first point is excluded because nothing has
 * happened yet; all others are equally likely. At most one is at or after `ends`, where the run's end is committed: a
 * process that resumes a finished run passes no further point.
 */
export function planKills(
  seed: number,
  { points, ends, kills }: { readonly points: number; readonly ends: number; readonly kills: number },
): readonly number[] {
  const random = randomFrom(seed);
  const chosen = new Set<number>();
  const most = Math.max(0, Math.min(kills, ends - 1 + (ends < points ? 1 : 0)));
  while (chosen.size < most) {
    const place = 1 + Math.floor(random() * (points - 1));
    if (place < ends || ![...chosen].some((other) => other >= ends)) chosen.add(place);
  }
  return [...chosen].toSorted((a, b) => a - b);
}

/** Mulberry32: small, and the same on every platform. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Death {
  readonly place: string;
  readonly stage: string;
  readonly iteration: number;
  readonly stageAttempt: number;
}

type WorkerEnd =
  | { readonly kind: "died"; readonly death: Death }
  | {
      readonly kind: "ended";
      readonly points: readonly string[];
      /** Index of the first point after the run's end was committed. */
      readonly ends: number;
      readonly outcome: string;
    };

/** Runs one process that works on the demo's issue, until it ends or is killed. */
async function runWorker(
  repository: DemoRepository,
  params: {
    readonly death: { readonly points: string; readonly at: number } | null;
    /** The run to resume; null: start one. */
    readonly resume: string | null;
  },
): Promise<WorkerEnd> {
  const { death, resume } = params;
  const args = ["demo-worker", "--agent", repository.agent];
  if (resume !== null) args.push("--resume", resume);
  if (death !== null) args.push("--points", death.points, "--die-at", String(death.at));
  const child = spawn(process.execPath, [process.argv[1] ?? "", ...args], {
    cwd: repository.clone,
    env: { ...repository.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const exit = await new Promise<{ readonly status: number | null; readonly signal: string | null }>(
    (resolve, reject) => {
      child.on("error", reject);
      child.on("close", (status, signal) => resolve({ status, signal }));
    },
  );
  const printed = lastLine(stdout);
  if (exit.signal === "SIGKILL" && printed !== null && isDeath(printed["died"]))
    return { kind: "died", death: printed["died"] };
  const outcome = printed?.["outcome"];
  const points = printed?.["points"];
  const ends = printed?.["ends"];
  if (Array.isArray(points) && typeof ends === "number" && isRecord(outcome))
    return { kind: "ended", points: points.map(String), ends, outcome: String(outcome["kind"]) };
  throw new HoldfastError({
    code: "INTERNAL",
    message: `The demo's worker ended with ${exit.signal ?? exit.status ?? "nothing"}: ${stderr.trim() || stdout.trim()}`,
    hint: "Run it again with --keep and look into the directory.",
  });
}

function lastLine(text: string): JsonObject | null {
  return parseObject(text.trim().split("\n").at(-1) ?? "");
}

function isDeath(value: unknown): value is Death {
  return isRecord(value) && typeof value["place"] === "string" && typeof value["stageAttempt"] === "number";
}

/** One stage attempt from the journal, with the kills during it. */
interface TimelineRow {
  readonly stageAttempt: number;
  readonly stage: string;
  readonly iteration: number;
  readonly event: string;
  readonly score: number | null;
  readonly deaths: readonly string[];
}

function timelineOf(entries: readonly JournalEntry[], deaths: readonly Death[]): readonly TimelineRow[] {
  const rows = new Map<number, TimelineRow>();
  for (const { kind, body } of entries) {
    const { stageAttempt, stage, iteration, event, score } = body;
    if (typeof stageAttempt !== "number" || typeof stage !== "string") continue;
    if (kind === "stage.entered") {
      const died = deaths.filter((death) => death.stageAttempt === stageAttempt).map(({ place }) => place);
      const round = typeof iteration === "number" ? iteration : 0;
      rows.set(stageAttempt, { stageAttempt, stage, iteration: round, event: "", score: null, deaths: died });
    }
    const row = rows.get(stageAttempt);
    if (kind === "stage.ended" && row !== undefined && typeof event === "string")
      rows.set(stageAttempt, { ...row, event, score: typeof score === "number" ? score : null });
  }
  return [...rows.values()];
}

interface DemoFacts {
  readonly run: string;
  readonly entries: readonly JournalEntry[];
  /** Branches at the remote, without the base. */
  readonly branches: readonly string[];
  /** Lines of the forge's own log: the changes that it was asked to make. */
  readonly forgeLog: readonly { readonly what: string; readonly key: string | null }[];
  readonly verified: { readonly ok: boolean; readonly entries: number; readonly checkpoints: number };
  readonly leftBehind: number;
  readonly tree: string;
  /** Tree of a control run that was not killed. */
  readonly controlTree: string;
  readonly deaths: number;
}

interface Claim {
  readonly claim: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** Checks each promise against an independent source: the remote, the forge's log, the journal, the digests, the files. */
export function prove(facts: DemoFacts): readonly Claim[] {
  const finished = countBy(
    facts.entries,
    "step.finished",
    (body) => `${String(body["stageAttempt"])}/${String(body["step"])}`,
  );
  const settled = countBy(facts.entries, "effect.settled", (body) => String(body["key"]));
  const adopted = facts.entries.filter(({ kind, body }) => kind === "effect.settled" && body["adopted"] === true);
  const opened = facts.forgeLog.filter(({ what }) => what === "pull_created");
  const keys = facts.forgeLog.flatMap(({ key }) => key ?? []);
  return [
    {
      claim: "killed and resumed",
      ok: facts.deaths === 3,
      detail: `${countText(facts.deaths, "time")} by SIGKILL, and resumed each time`,
    },
    { claim: "one branch", ok: facts.branches.length === 1, detail: facts.branches.join(", ") },
    {
      claim: "one pull request",
      ok: opened.length === 1,
      detail: `the forge's log has ${countText(opened.length, "creation")}`,
    },
    {
      claim: "no outside effect twice",
      ok: new Set(keys).size === keys.length && most(settled) === 1,
      detail: `${countText(settled.size, "effect")}, each settled once${adopted.length === 0 ? "" : `; ${adopted.length} found already done and adopted`}`,
    },
    {
      claim: "no step run twice",
      ok: most(finished) === 1,
      detail: `${countText(finished.size, "step")}, each finished once`,
    },
    {
      claim: "nothing lost",
      ok: facts.verified.ok,
      detail: `${facts.verified.entries} journal entries and ${facts.verified.checkpoints} checkpoints, every digest recomputed`,
    },
    {
      claim: "no process left behind",
      ok: facts.leftBehind === 0,
      detail:
        facts.leftBehind === 0 ? "no agent outlived its run" : countText(facts.leftBehind, "process", "processes"),
    },
    {
      claim: "same result",
      ok: facts.tree === facts.controlTree,
      detail: `tree ${facts.tree.slice(0, 12)}, as in the run without a kill`,
    },
  ];
}

function countBy(
  entries: readonly JournalEntry[],
  kind: JournalEntry["kind"],
  keyOf: (body: Readonly<Record<string, Json>>) => string,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const entry of entries) {
    if (entry.kind !== kind) continue;
    const key = keyOf(entry.body);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

function most(counts: ReadonlyMap<string, number>): number {
  return Math.max(0, ...counts.values());
}

function headingText(text: string, page: Page): string {
  return `\n${paint(page, "bold", `── ${text}`)}\n`;
}

function timelineText(rows: readonly TimelineRow[], page: Page): string {
  const width = Math.max(...rows.map((row) => displayWidth(placeOf(row))));
  return rows
    .map((row) => {
      const score = row.score === null ? "" : `, score ${row.score}`;
      const line = `  ${padEnd(placeOf(row), width)}  ${row.event === "" ? "the end" : `${row.event}${score}`}\n`;
      const deaths = row.deaths.map((place) => markedText("✗", "red", `killed ${place}`, page, "    "));
      return line + deaths.join("");
    })
    .join("");
}

function proofText(claims: readonly Claim[], page: Page): string {
  const width = Math.max(...claims.map(({ claim }) => claim.length));
  return claims
    .map(({ claim, ok, detail }) => {
      const mark = paint(page, ok ? "green" : "red", ok ? "✓" : "✗");
      const [first = "", ...rest] = wrap(detail, Math.min(page.width, 80) - width - 6);
      const indent = " ".repeat(width + 6);
      return `  ${mark} ${padEnd(claim, width)}  ${[first, ...rest.map((line) => indent + line)].join("\n")}\n`;
    })
    .join("");
}

function markedText(mark: string, style: "red" | "cyan", text: string, page: Page, indent = "  "): string {
  const [first = "", ...rest] = wrap(text, Math.min(page.width, 80) - indent.length - 2);
  return `${indent}${paint(page, style, mark)} ${[first, ...rest.map((line) => `${indent}  ${line}`)].join("\n")}\n`;
}

function placeOf({ stage, iteration }: TimelineRow): string {
  return iteration > 0 && (stage === "impl" || stage === "review") ? `${stage} #${iteration}` : stage;
}
