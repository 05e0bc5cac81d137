// Undoes a side effect of a run where its target allows it: which recipe an effect has, whether it applies now, and the undo itself.

import { HoldfastError, usageError } from "@holdfast/platform/error";
import { unseenText } from "./commands.ts";
import { type Adapters, findAnyWorktree, runMark } from "./adapters.ts";
import { type Effect, type EffectUndone, readIntent } from "./effects.ts";
import type { Forge, PullRequest, Subject } from "./forge.ts";
import { acquireLease } from "./hold-lease.ts";
import { isObjectId } from "./journal.ts";
import { type Json, asRecord } from "./json.ts";
import type { Lease } from "./lease.ts";
import { mentionsKey } from "./observe-remote.ts";
import type { Asking } from "./branch.ts";

/** An effect with what the journal holds about it. */
export interface RecordedEffect {
  readonly effect: Effect;
  /** The content of its newest intent. */
  readonly payload: Json;
  /** Number of the entry that settled it, or of its intent. Effects are ordered by it. */
  readonly entry: number;
}

/** What an undo changes. Everything in it was checked: the journal holds what forges and workflows reported. */
export type UndoRecipe =
  | { readonly kind: "close_pull_request"; readonly forge: string; readonly number: number; readonly url: string }
  | {
      readonly kind: "undo_push";
      readonly remote: string;
      readonly branch: string;
      readonly from: string;
      /** The commit that the push replaced; null: the push created the branch. */
      readonly to: string | null;
    }
  | { readonly kind: "remove_label"; readonly forge: string; readonly on: Subject; readonly label: string }
  | { readonly kind: "delete_comment"; readonly forge: string; readonly on: Subject; readonly url: string };

type Refusal = { readonly kind: "refused"; readonly why: string; readonly hint: string };

/** Whether an effect can be undone. `what` describes the change, as an imperative sentence without its full stop. */
export interface UndoPreview {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly state: Effect["state"]["kind"];
  readonly at: string;
  readonly entry: number;
  readonly what: string | null;
  readonly can: boolean;
  /** Why it cannot be undone; null: it can. */
  readonly why: string | null;
  readonly hint: string | null;
}

export interface UndoReport {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly what: string;
  /** The target had undone it before Holdfast acted, or an interrupted undo had. */
  readonly adopted: boolean;
  readonly receipt: Json;
}

/** The effects of a run, oldest first. Reads only. */
async function readEffects({ store }: Pick<Adapters, "store">, run: string): Promise<readonly RecordedEffect[]> {
  const ledger = new Map((await store.listEffects(run)).map((effect) => [effect.key, effect]));
  const found = new Map<string, { readonly payload: Json; readonly entry: number }>();
  for await (const entry of store.readJournal({ run })) {
    if (entry.kind === "effect.intended") {
      const { key, detail } = readIntent(entry);
      const known = found.get(key);
      // An intent for an effect that is done already changes nothing.
      if (known === undefined || ledger.get(key)?.state.kind !== "done")
        found.set(key, { payload: detail["payload"] ?? null, entry: entry.entry });
    } else if (entry.kind === "effect.settled") {
      const known = found.get(String(entry.body["key"]));
      if (known !== undefined) found.set(String(entry.body["key"]), { ...known, entry: entry.entry });
    }
  }
  return [...found]
    .flatMap(([key, facts]) => {
      const effect = ledger.get(key);
      return effect === undefined ? [] : [{ effect, ...facts }];
    })
    .toSorted((a, b) => a.entry - b.entry);
}

/** Chooses the recipe from kind, target, payload and receipt. Pure: what the target says now is checked later. */
export function planUndo({ effect, payload }: RecordedEffect): UndoRecipe | Refusal {
  const { kind, target, state } = effect;
  if (state.kind !== "done" && state.kind !== "undoing") return notDone(effect);
  const [receipt, content] = [asRecord(state.receipt), asRecord(payload)];
  switch (kind) {
    case "push": {
      // The path of a remote may contain spaces. The name of a branch cannot.
      const [, remote, branch] = /^(.+) ([^\s-]\S*)$/.exec(target) ?? [];
      const [from, to = null] = [receipt["commit"], content["expected"]];
      if (remote === undefined || branch === undefined || !isCommit(from) || (to !== null && !isCommit(to)))
        return unreadable(kind);
      return { kind: "undo_push", remote, branch, from, to };
    }
    case "pull_request": {
      const { number, url } = receipt;
      const [, forge] = /^(\S+) \S+$/.exec(target) ?? [];
      if (forge === undefined || !isNumber(number) || typeof url !== "string") return unreadable(kind);
      return { kind: "close_pull_request", forge, number, url };
    }
    case "label":
    case "state_label": {
      const { label } = content;
      const place = subjectOf(target, content);
      if (place === null || (typeof label !== "string" && label !== null)) return unreadable(kind);
      if (label === null) return refusal("the run removed labels, and it is not recorded which ones", BY_HAND);
      // A label that was there already may be a user's own.
      if (state.adopted) return refusal(`the label ${label} was there before the run set it`, BY_HAND);
      return { kind: "remove_label", ...place, label };
    }
    case "comment": {
      const { url } = receipt;
      const place = subjectOf(target, content);
      if (place === null || typeof url !== "string") return unreadable(kind);
      return { kind: "delete_comment", ...place, url };
    }
    case "pull_request_text":
      return refusal("the text that it replaced is not recorded", "Edit the title and the body at the forge.");
    case "commit":
      return refusal(
        "a commit is part of the files, which a restore brings back",
        `Restore an earlier checkpoint: \`holdfast restore ${effect.run} --pick\`.`,
      );
    default:
      if (/merge/.test(kind))
        return refusal("others may have built on a merge", "Revert it: `git revert -m 1 COMMIT`, then push.");
      return refusal(`Holdfast knows no way back for effects of the kind ${kind}`, BY_HAND);
  }
}

const BY_HAND = "Undo it by hand at its target.";

/** One sentence for the user, as an imperative without its full stop. */
export function describeUndo(recipe: UndoRecipe): string {
  switch (recipe.kind) {
    case "close_pull_request":
      return `Close pull request #${recipe.number} (${recipe.url})`;
    case "undo_push": {
      const { branch, remote, from, to } = recipe;
      if (to === null) return `Delete branch ${branch} at ${remote}, if it is still at ${from.slice(0, 10)}`;
      return `Put branch ${branch} at ${remote} back to ${to.slice(0, 10)}, if it is still at ${from.slice(0, 10)}`;
    }
    case "remove_label":
      return `Remove the label ${recipe.label} from ${subjectText(recipe.on)} at ${recipe.forge}`;
    case "delete_comment":
      return `Delete the comment ${recipe.url}`;
  }
}

/**
 * What each effect's undo would do now, oldest effect first. Asks the targets and changes nothing. `after`: only done effects that were
 * settled after this entry, newest first, each as if those before it in the list were undone.
 */
export async function previewUndo(
  adapters: Adapters,
  { run, after }: { readonly run: string; readonly after?: number },
): Promise<readonly UndoPreview[]> {
  const all = await readEffects(adapters, run);
  const previews: UndoPreview[] = [];
  const target = new Target(adapters, run, all);
  const isAsked = ({ effect: { state }, entry }: RecordedEffect): boolean =>
    after === undefined || (entry > after && state.kind !== "failed" && state.kind !== "undone");
  for (const recorded of after === undefined ? all : all.toReversed()) {
    if (!isAsked(recorded)) continue;
    const { effect, entry } = recorded;
    const { key, kind, state } = effect;
    const plan = planUndo(recorded);
    const refused = plan.kind === "refused" ? plan : await refusalNow(target, plan);
    const what = plan.kind === "refused" ? null : describeUndo(plan);
    if (after !== undefined && plan.kind !== "refused" && refused === null) target.assume(plan);
    const about = { key, kind, target: effect.target, state: state.kind, at: state.at, entry, what };
    previews.push({ ...about, can: refused === null, why: refused?.why ?? null, hint: refused?.hint ?? null });
  }
  return previews;
}

/** A target that does not answer is a reason too: the list of the other effects is still useful. */
async function refusalNow(target: Target, recipe: UndoRecipe): Promise<Omit<Refusal, "kind"> | null> {
  try {
    const answer = await target.ask(recipe);
    return answer.kind === "refused" ? answer : null;
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return { why: error.message, hint: error.hint ?? "" };
  }
}

/**
 * Undoes one effect. Order: ask the target whether it is undone, commit the intent, act, verify, commit the receipt. After a kill the same
 * call continues: it asks before it acts, and every act changes nothing the second time. UNDO_REFUSED: it stays. LEASE_HELD: a process
 * executes the run.
 */
export async function undoEffect(
  adapters: Adapters,
  { run, key }: { readonly run: string; readonly key: string },
): Promise<UndoReport> {
  await using held = await acquireLease(adapters, run);
  // An interrupted undo may have left a program of the forge running.
  const unseen = unseenText(await adapters.commands.endMarked(runMark(adapters, run)));
  if (unseen !== null) {
    await adapters.store.commit({ lease: held.lease, entries: [{ kind: "note", body: { text: unseen } }] });
  }
  const all = await readEffects(adapters, run);
  const recorded = all.find(({ effect }) => effect.key === key);
  if (recorded === undefined)
    throw usageError(`Run ${run} has no effect ${JSON.stringify(key)}`, `\`holdfast undo ${run}\` lists its effects.`);
  const { effect } = recorded;
  const recipe = planUndo(recorded);
  if (recipe.kind === "refused") throw undoRefused(effect, recipe);
  const target = new Target(adapters, run, all);
  const before = await target.ask(recipe);
  if (effect.state.kind === "done") {
    // A refusal that is known now leaves no trace in the journal.
    if (before.kind === "refused") throw undoRefused(effect, before);
    await adapters.store.commit({ lease: held.lease, entries: [{ kind: "effect.undoing", body: { key } }] });
  }
  const receipt = { ...recipe };
  const settle = async (adopted: boolean): Promise<UndoReport> => {
    const { kind, target: at } = effect;
    await commitUndone(adapters, held.lease, { key, outcome: "undone", adopted, receipt });
    return { key, kind, target: at, what: describeUndo(recipe), adopted, receipt };
  };
  const keep = async (refused: Omit<Refusal, "kind">): Promise<never> => {
    await commitUndone(adapters, held.lease, { key, outcome: "kept", reason: refused.why });
    throw undoRefused(effect, refused);
  };
  if (before.kind === "gone") return await settle(true);
  if (before.kind === "refused") return await keep(before);
  const refused = await target.act(recipe);
  const after = await target.ask(recipe);
  if (after.kind === "gone") return await settle(false);
  return await keep(after.kind === "refused" ? after : (refused ?? STILL_THERE));
}

const STILL_THERE = {
  why: "the target accepted the undo, and still has it",
  hint: "Look at the target, then run the command again.",
};

async function commitUndone(adapters: Adapters, lease: Lease, body: EffectUndone): Promise<void> {
  await adapters.store.commit({ lease, entries: [{ kind: "effect.undone", body }] });
}

type Answer = { readonly kind: "there" } | { readonly kind: "gone" } | Refusal;

/** The forge and the remote of a run's effects. What they answer decides; nothing is assumed. */
class Target {
  readonly #adapters: Adapters;
  readonly #run: string;
  readonly #effects: readonly RecordedEffect[];
  /** For a plan of several undos: the commits of branches, and the pull requests that are closed, after the first ones. */
  readonly #tips = new Map<string, string | null>();
  readonly #closed = new Set<number>();

  constructor(adapters: Adapters, run: string, effects: readonly RecordedEffect[]) {
    this.#adapters = adapters;
    this.#run = run;
    this.#effects = effects;
  }

  /** From now on answers as if this were undone. */
  assume(recipe: UndoRecipe): void {
    if (recipe.kind === "undo_push") this.#tips.set(recipe.branch, recipe.to);
    if (recipe.kind === "close_pull_request") this.#closed.add(recipe.number);
  }

  /** Whether the effect is still there, gone, or not ours to undo. Throws when the target does not answer. */
  async ask(recipe: UndoRecipe): Promise<Answer> {
    if (recipe.kind === "undo_push") return await this.#askRemote(recipe);
    const forge = this.#forge(recipe);
    if ("kind" in forge) return forge;
    switch (recipe.kind) {
      case "close_pull_request":
        return this.#judge(await forge.getPullRequest(recipe.number), recipe);
      case "remove_label": {
        const labels = await labelsOf(forge, recipe.on);
        return { kind: labels?.some((one) => sameLabel(one, recipe.label)) === true ? "there" : "gone" };
      }
      case "delete_comment": {
        const key = this.#keyOf(recipe);
        const found = key === null ? null : await forge.findComment(recipe.on, key);
        return { kind: found?.url === recipe.url ? "there" : "gone" };
      }
    }
  }

  /** Acts once. A refusal is a value; throws when the outcome is unknown. */
  async act(recipe: UndoRecipe): Promise<Omit<Refusal, "kind"> | null> {
    try {
      if (recipe.kind === "undo_push") return await this.#undoPush(recipe);
      const forge = this.#forge(recipe);
      if ("kind" in forge) return forge;
      switch (recipe.kind) {
        case "close_pull_request":
          await forge.closePullRequest(recipe.number);
          return null;
        case "remove_label": {
          // Read right before the write, so that other users' changes are kept.
          const labels = (await labelsOf(forge, recipe.on)) ?? [];
          await forge.setLabels(
            recipe.on,
            labels.filter((one) => !sameLabel(one, recipe.label)),
          );
          return null;
        }
        case "delete_comment":
          await forge.deleteComment(recipe.on, this.#keyOf(recipe) ?? "");
          return null;
      }
    } catch (error) {
      if (!(error instanceof HoldfastError) || (error.code !== "FORGE_REFUSED" && error.code !== "FORGE_DENIED"))
        throw error;
      return { why: error.message, hint: error.hint ?? BY_HAND };
    }
  }

  #forge(recipe: { readonly forge: string }): Forge | Refusal {
    const { forge } = this.#adapters;
    if (forge === null)
      return refusal("no forge is configured here", "Run the command where the run's forge is known.");
    if (forge.name === recipe.forge) return forge.marked(`${runMark(this.#adapters, this.#run)}/undo`);
    return refusal(`it is at ${recipe.forge}, and the forge here is ${forge.name}`, BY_HAND);
  }

  #judge(found: PullRequest | null, { number, url }: { readonly number: number; readonly url: string }): Answer {
    if (found === null) return refusal(`pull request #${number} does not exist any more`, BY_HAND);
    if (found.url !== url) return refusal(`pull request #${number} here is another one (${found.url})`, BY_HAND);
    if (found.state === "closed") return { kind: "gone" };
    if (found.state === "merged")
      return refusal(
        `pull request #${number} is merged, and others may have built on it`,
        "Revert it: `git revert -m 1 COMMIT`, then push.",
      );
    // A run adopts any open pull request of its branch, also one of another user.
    const isOurs = this.#effects.some(({ effect }) => mentionsKey(found.body, effect.key));
    if (isOurs) return { kind: "there" };
    return refusal(
      `pull request #${number} does not contain this run's marker: another user opened it, or edited its text`,
      BY_HAND,
    );
  }

  async #askRemote(recipe: Extract<UndoRecipe, { readonly kind: "undo_push" }>): Promise<Answer> {
    const { branch, from, to } = recipe;
    const remote = await this.#remote(recipe);
    if ("kind" in remote) return remote;
    const found = await remote.lookUpRemote(branch);
    if (found.kind === "unknown")
      throw new HoldfastError({
        code: "FORGE_FAILED",
        message: `${recipe.remote} does not report where ${branch} is: ${found.reason}`,
        hint: "Run the command again when the remote answers. It asks before it acts.",
        retry: "later",
      });
    const assumed = this.#tips.get(branch);
    const commit = assumed === undefined ? found.commit : assumed;
    if (commit === to) return { kind: "gone" };
    if (commit !== from)
      return refusal(
        `${branch} at ${recipe.remote} is at ${commit ?? "nothing"} and not at ${from}, which the run pushed`,
        "Another push came after it. Undo that one first, or change the branch by hand.",
      );
    const open = to === null ? await this.#openRequest(branch) : null;
    if (open === null) return { kind: "there" };
    return refusal(
      `pull request #${open.number} is open for ${branch}, and deleting the branch would close it`,
      "Undo the pull request first.",
    );
  }

  async #openRequest(branch: string): Promise<PullRequest | null> {
    const found = (await this.#adapters.forge?.findPullRequest(branch)) ?? null;
    return found?.state === "open" && !this.#closed.has(found.number) ? found : null;
  }

  async #undoPush(recipe: Extract<UndoRecipe, { readonly kind: "undo_push" }>): Promise<Omit<Refusal, "kind"> | null> {
    const remote = await this.#remote(recipe);
    if ("kind" in remote) return remote;
    const { branch, from, to } = recipe;
    const refused = await remote.undoPush({ branch, from, to });
    if (refused === null) return null;
    return { why: `the remote refused (${refused.cause}): ${refused.message.trim()}`, hint: BY_HAND };
  }

  /** The recorded address must be the one that git pushes to now: another remote may have a branch of the same name. */
  async #remote({ remote: url }: { readonly remote: string }): Promise<Asking | Refusal> {
    const { workspaces, branches } = this.#adapters;
    const folder = workspaces === null ? null : await findAnyWorktree(workspaces);
    const asking = folder === null ? null : await branches.asking(folder);
    const now = (await asking?.pushRemote())?.url ?? null;
    if (asking !== null && now === url) return asking;
    return refusal(`the push went to ${url}, and this repository pushes to ${now ?? "no remote"}`, BY_HAND);
  }

  #keyOf({ url }: { readonly url: string }): string | null {
    const own = this.#effects.find(
      ({ effect: { kind, state } }) =>
        kind === "comment" && "receipt" in state && asRecord(state.receipt)["url"] === url,
    );
    return own?.effect.key ?? null;
  }
}

async function labelsOf(forge: Forge, on: Subject): Promise<readonly string[] | undefined> {
  return typeof on === "number"
    ? (await forge.getIssue(on))?.labels
    : (await forge.getPullRequest(on.pullRequest))?.labels;
}

/** Labels are case-insensitive at GitHub. */
function sameLabel(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function notDone({ state }: Effect): Refusal {
  switch (state.kind) {
    case "undone":
      return refusal(`it was undone at ${state.at}`, "");
    case "failed":
      return refusal("it failed, so nothing was changed there", "");
    default:
      return refusal(
        "it is not known whether it happened",
        "Resume the run first: it asks the target and records the answer.",
      );
  }
}

function refusal(why: string, hint: string): Refusal {
  return { kind: "refused", why, hint };
}

function unreadable(kind: string): Refusal {
  return refusal(`its record does not have the form of a ${kind}`, BY_HAND);
}

function undoRefused({ run, key, kind, target }: Effect, { why, hint }: Omit<Refusal, "kind">): HoldfastError {
  return new HoldfastError({
    code: "UNDO_REFUSED",
    message: `${kind} on ${target} cannot be undone: ${why}`,
    ...(hint === "" ? {} : { hint }),
    data: { run, key, why },
  });
}

/** Where a label or a comment is: in the payload, or as `forge #12` in the target, which is an issue. */
function subjectOf(
  target: string,
  payload: Readonly<Record<string, unknown>>,
): { readonly forge: string; readonly on: Subject } | null {
  const [, forge, digits] = /^(\S+) #([1-9]\d{0,8})$/.exec(target) ?? [];
  if (forge === undefined) return null;
  const { pullRequest } = payload;
  if (pullRequest === undefined) return { forge, on: Number(digits) };
  return pullRequest === Number(digits) ? { forge, on: { pullRequest: Number(digits) } } : null;
}

function subjectText(on: Subject): string {
  return typeof on === "number" ? `issue #${on}` : `pull request #${on.pullRequest}`;
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}

function isCommit(value: unknown): value is string {
  return typeof value === "string" && isObjectId(value);
}
