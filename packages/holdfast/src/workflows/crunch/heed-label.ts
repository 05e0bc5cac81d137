import { movedLabel } from "../../core/crunch/moved-label.ts";
import type { MovedLabel } from "../../core/crunch/moved-label.ts";
import type { Phase } from "../../core/crunch/phase.ts";
import type { Effect } from "../../core/effect/effect.ts";
import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import type { Forge } from "../../ports/forge.ts";
import { askForge } from "../publish/forge-answer.ts";
import { parkOnce } from "../publish/park-once.ts";
import { STATE_LABEL } from "./set-state-label.ts";
import { requireSetup } from "./work.ts";
import type { CrunchContext, CrunchWork } from "./work.ts";

/**
 * Before the label of the next phase replaces the one that is there. One that a person moved meanwhile says where the work is to go on: the run parks, and is
 * taken up as by every resume, which follows the label or asks. Whoever resumes with it as it is has been heard.
 */
export async function heedLabel(
  work: CrunchWork,
  context: CrunchContext,
  { forge, phase }: { readonly forge: Forge; readonly phase: Phase },
): Promise<void> {
  const { issue } = requireSetup(context);
  const moved = await askForge(context, () =>
    context.step("label-moved", async (): Promise<MovedLabel | null> => {
      const found = await forge.getIssue(issue.number);
      if (found === null) return null;
      const own = await ownLabels(work, context);
      return movedLabel({ now: found.labels, own, entering: phase, agreed: await agreedLabels(work, context) });
    }),
  );
  if (moved === null) return;
  const at = context.state.phases.at(-1)?.phase ?? "its beginning";
  const next =
    moved.follows === null
      ? `Put the right one there, then resume; as it is, the run goes on at ${phase}.`
      : `Resume, and the run goes on at ${moved.follows}; put state:${at} there first, and it goes on at ${phase}.`;
  const reason = `Issue #${issue.number} carries ${moved.says}, set by somebody while the run was at ${at}. ${next}`;
  await parkOnce(context, { name: "label-moved-parked", on: "person", reason });
}

/**
 * By the ledger, which goes back with no restore. None where the run has set none yet, or one may have come about that nobody knows of. A forge may
 * answer from a copy that is behind: right after a change, what was there before is the run's own too.
 */
async function ownLabels({ parts }: CrunchWork, context: CrunchContext): Promise<readonly (readonly string[])[]> {
  const [newest, before] = (await parts.store.listEffects(context.run.id))
    .filter(({ kind, state }) => kind === STATE_LABEL && state.kind !== "failed")
    .toSorted((a, b) => visitOf(b) - visitOf(a))
    .map(({ state }) => state);
  if (newest?.kind !== "done") return [];
  const own = [labelsIn(newest.receipt)];
  if (context.now() - Date.parse(newest.at) > BEHIND_MS) return own;
  return [...own, before?.kind === "done" ? labelsIn(before.receipt) : (context.state.issue?.labels ?? [])];
}

const BEHIND_MS = 10_000;

function labelsIn(receipt: Json): readonly string[] {
  const labels = isJsonObject(receipt) ? (receipt["labels"] ?? null) : null;
  return isJsonArray(labels) ? labels.filter((label) => typeof label === "string") : [];
}

/** Keys end with the number of the visit, which only ever grows; clocks do not. */
function visitOf({ key }: Effect): number {
  return Number(key.slice(key.lastIndexOf(".") + 1));
}

/** What a person was told of, or asked about, when the run was taken up since it set its own label last; null: nothing. */
async function agreedLabels({ parts }: CrunchWork, { run, inputs }: CrunchContext): Promise<readonly string[] | null> {
  let heard = false;
  for await (const { kind, body } of parts.store.readJournal({ run: run.id })) {
    if (kind === "effect.intended" && body["kind"] === STATE_LABEL) heard = false;
    if (kind === "note" && body["finding"] === "issue_labels_changed") heard = true;
  }
  return heard ? (inputs.issue?.labels ?? null) : null;
}
