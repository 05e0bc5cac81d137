/**
 * Plans and applies actions of the page. Each action is a command of the CLI, which this server runs in the repository: the same refusals,
 * the same consent and the same journal entries as in a terminal. A plan is made again before it is applied.
 */
import { type JsonRecord, asRecord, asText, isRecord, sha256 } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import type { Action, ApplyRequest, ApplyResult, Plan, Problem, RunRow } from "@holdfast/dashboard/api";
import { type ErrorCode, HoldfastError, usageError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import { runProcess } from "@holdfast/platform/subprocess";
import { ACTOR_VARIABLE } from "../actor.ts";
import { EXIT_OF } from "../cli/exit.ts";
import { commandText, commandsOf, dryRunOf, parseKey, repositoryFlags, subjectOf } from "./actions.ts";
import { type OpenFinding, type PlanText, asksAgain, openFindings, planText, resultText } from "./plan-text.ts";
import { type OpenRepository, type Repositories, makeProblem } from "./repositories.ts";

export interface PlansParams {
  readonly repositories: Repositories;
  /** Program and first arguments of the CLI that runs this server. */
  readonly program: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Recorded in the journals. */
  readonly by: string;
}

const PLAN_MS = 120_000;
const APPLY_MS = 600_000;
/** A plan can be applied this long. */
const LIFE_MS = 10 * 60_000;
const MAX_PLANS = 200;
const MAX_OUTPUT = 16 * 1024 * 1024;

interface Ran {
  readonly document: JsonRecord;
  readonly problem: Problem | null;
}

export class Plans {
  readonly #params: PlansParams;
  /** `asked`: the action before the plan added what the user accepts by it. A plan is made again from that. */
  readonly #plans = new Map<string, { readonly asked: Action; readonly plan: Plan }>();
  /** Results by idempotency key. */
  readonly #applied = new Map<string, Promise<ApplyResult>>();

  /** What the last plan of a resume found, by run. */
  readonly #found = new Map<string, { readonly entries: number; readonly findings: readonly OpenFinding[] }>();

  constructor(params: PlansParams) {
    this.#params = params;
  }

  /** What changed since the run stopped, if a plan has looked and the run has no entry since. Nothing is asked of a forge here. */
  findings({ key, run }: Pick<RunRow, "key" | "run">): readonly OpenFinding[] {
    const found = this.#found.get(key);
    return found?.entries === run.entries ? found.findings : [];
  }

  async make(action: Action): Promise<Plan> {
    const plan = await this.#plan(action, randomId());
    this.#plans.set(plan.id, { asked: action, plan });
    forgetOldest(this.#plans, MAX_PLANS);
    return plan;
  }

  /** A repeated request with the same key gets the result of the first. */
  async apply(id: string, request: ApplyRequest): Promise<ApplyResult> {
    const place = `${id} ${request.key}`;
    const known = this.#applied.get(place);
    if (known !== undefined) return await known;
    const applying = this.#apply(id, request);
    this.#applied.set(place, applying);
    forgetOldest(this.#applied, MAX_PLANS);
    const result = await applying.catch((error: unknown) => {
      // The store may be readable again at the next try. A plan that was applied is refused then.
      this.#applied.delete(place);
      throw error;
    });
    // Nothing was done, so the same key may be used for the new plan.
    if (result.kind === "changed") this.#applied.delete(place);
    return result;
  }

  async #apply(id: string, request: ApplyRequest): Promise<ApplyResult> {
    const known = this.#plans.get(id);
    if (known === undefined || Date.parse(known.plan.expiresAt) <= this.#params.repositories.now())
      throw usageError("This plan is too old", "Look at a new one.");
    const { asked, plan } = known;
    const again = await this.#plan(asked, id);
    if (again.digest !== request.digest) {
      this.#plans.set(id, { asked, plan: again });
      return { kind: "changed", plan: again };
    }
    // With another key too, a plan is applied once.
    if (!this.#plans.delete(id)) throw usageError("This plan was applied already", "Look at a new one.");
    const { opened } = await this.#subject(plan.action);
    const raise = await raiseFlag(opened, plan.action);
    let last: JsonRecord | null = null;
    for (const argv of commandsOf(plan.action, raise)) {
      const { document, problem } = await this.#run(opened, argv, APPLY_MS);
      if (problem !== null) return { kind: "failed", problem: last === null ? problem : afterAnswer(problem) };
      last = document;
    }
    // A new plan remembers what the run asks about, so that it is in the inbox. Without it, the action is done all the same.
    if (last !== null && asksAgain(last) && "run" in plan.action)
      await this.#plan({ kind: "resume", run: plan.action.run, accept: [], from: null }, id).catch(() => null);
    return { kind: "done", ...resultText(plan.action, last ?? {}) };
  }

  async #subject(action: Action): Promise<{ readonly opened: OpenRepository; readonly run: string }> {
    const { repository, run } = subjectOf(action);
    const others = action.kind === "choose" ? action.others : action.kind === "cherry_pick" ? [action.from] : [];
    for (const key of others)
      if (parseKey(key).repository !== repository) throw usageError("Both runs must be in one repository");
    return { opened: await this.#params.repositories.open(repository), run };
  }

  async #plan(action: Action, id: string): Promise<Plan> {
    const { opened, run } = await this.#subject(action);
    const { holdfast } = opened;
    const found = await holdfast.runWithStatus(run);
    const now = this.#params.repositories.now();
    const row = await opened.row(found, now);
    const raise = await raiseFlag(opened, action);
    const argv = dryRunOf(action, raise);
    const dry = argv === null ? null : await this.#run(opened, argv, PLAN_MS);
    if (dry !== null && dry.problem !== null) throw asError(dry.problem);
    if (dry !== null && action.kind === "resume" && action.accept.length === 0)
      this.#remember(row, openFindings(dry.document));
    const checkpoint =
      "sequence" in action && action.kind !== "cherry_pick"
        ? await holdfast.resolve(`${run}@${action.sequence}`)
        : null;
    const effects = action.kind === "restore" ? [...(await opened.read(found.run)).effects.values()] : [];
    const text = planText({
      action,
      row,
      command: (...argv) => commandText(opened.named, argv),
      document: dry?.document ?? null,
      checkpoint,
      effects,
      unsaved: action.kind === "restore" ? await unsavedFiles(opened, run) : [],
    });
    const command = commandText(opened.named, ...commandsOf(text.action, raise));
    return planOf({ id, text, command, expires: now + LIFE_MS });
  }

  #remember(row: RunRow, findings: readonly OpenFinding[]): void {
    const isKnown = JSON.stringify(this.findings(row)) === JSON.stringify(findings);
    this.#found.set(row.key, { entries: row.run.entries, findings });
    forgetOldest(this.#found, MAX_PLANS);
    if (!isKnown) this.#params.repositories.onRead();
  }

  /** Runs one command of the CLI in the main worktree of the repository. Texts of the repository never become flags. */
  async #run({ named }: OpenRepository, argv: readonly string[], timeoutMs: number): Promise<Ran> {
    const { program, env, by } = this.#params;
    const [command, ...first] = program;
    const { HOLDFAST_UI_TOKEN: _token, HOLDFAST_STORE: _store, ...passed } = env;
    // The hints of the command name the repository as the page does.
    const flags = ["--json", ...repositoryFlags(named)];
    const ended = await runProcess({
      command,
      args: [...first, ...argv.slice(0, 1), ...flags, ...argv.slice(1)],
      cwd: named.root,
      env: { ...passed, [ACTOR_VARIABLE]: by },
      timeoutMs,
      maxOutputBytes: MAX_OUTPUT,
    });
    const document = lastDocument(ended.stdout.toString("utf8"));
    const problem = problemIn(ended.stderr);
    if (ended.kind === "exited" && (ended.code === 0 || document !== null))
      return { document: document ?? {}, problem: document === null || ended.code === 0 ? null : problem };
    const message = `\`holdfast ${argv[0] ?? ""}\` ${ended.kind === "timed_out" ? "took too long" : "failed"}`;
    return {
      document: {},
      problem: problem ?? { code: "IO_FAILED", message, hint: ended.stderr.slice(-400), command: null },
    };
  }
}

const masking = createMasking();

/** The files of the worktree that differ from the newest checkpoint, with names masked as in the plan of the command. */
async function unsavedFiles(opened: OpenRepository, run: string): Promise<readonly string[]> {
  const handle = await opened.holdfast.run(run);
  const root = (await handle.workspace())?.root;
  const saved = (await handle.newestWhole()).checkpoint?.planes.files?.tree;
  if (root === undefined || saved === undefined) return [];
  const look = await opened.look();
  const { tree } = await look.currentFiles(root);
  if (tree === saved) return [];
  return (await look.diff({ from: saved, to: tree, format: "names" })).files.map(({ path }) => masking.mask(path));
}

/** The flag that raises the limit which ended the run; null: none did, or the action needs none. */
async function raiseFlag({ holdfast }: OpenRepository, action: Action): Promise<string | null> {
  if (action.kind !== "raise" || action.limit !== "iterations") return null;
  return (await holdfast.status(subjectOf(action).run)).raise;
}

function planOf(params: {
  readonly id: string;
  readonly text: PlanText;
  readonly command: string;
  readonly expires: number;
}): Plan {
  const { id, text, command, expires } = params;
  const { action, title, lines, undo, button } = text;
  const digest = sha256(JSON.stringify([action, text.basis]));
  return { id, digest, action, title, lines, undo, button, command, expiresAt: new Date(expires).toISOString() };
}

/** A document over several lines, or the last of several documents of one line each. */
function lastDocument(stdout: string): JsonRecord | null {
  for (const text of [stdout, stdout.trimEnd().split("\n").at(-1) ?? ""]) {
    try {
      const value: unknown = JSON.parse(text);
      if (isRecord(value)) return value;
    } catch {
      // The other form.
    }
  }
  return null;
}

/** Of an answer and a resume, the answer is done. */
function afterAnswer(problem: Problem): Problem {
  return { ...problem, message: `The answer is recorded, but the run does not continue: ${problem.message}` };
}

/** The error object that the CLI prints with --json. */
function problemIn(stderr: string): Problem | null {
  for (const text of stderr.trimEnd().split("\n").toReversed()) {
    try {
      const { code, message, hint } = asRecord(asRecord(JSON.parse(text))["error"]);
      if (typeof code !== "string" || typeof message !== "string") continue;
      return makeProblem(code, message, asText(hint));
    } catch {
      // A line that is not JSON.
    }
  }
  return null;
}

function asError({ code, message, hint }: Problem): HoldfastError {
  const known = ERROR_CODES.find((one) => one === code) ?? "INTERNAL";
  return new HoldfastError({ code: known, message, ...(hint === null ? {} : { hint }) });
}

// The keys of a total record are exactly the codes.
const ERROR_CODES = Object.keys(EXIT_OF) as readonly ErrorCode[];

function forgetOldest<T>(map: Map<string, T>, most: number): void {
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
