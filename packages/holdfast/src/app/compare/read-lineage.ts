import type { CheckpointParent } from "../../core/checkpoint/checkpoint.ts";
import type { LineagePoint } from "../../core/compare/lineage.ts";
import { HistoryReader } from "../../core/compare/read-history.ts";
import type { History, HistoryStep } from "../../core/compare/read-history.ts";
import type { RollbackFacts } from "../../core/rollback/facts.ts";
import { FactsReader } from "../../core/rollback/read-facts.ts";
import type { Store } from "../../ports/store.ts";
import { sha256 } from "../../system/hash.ts";

export interface ReadJournal {
  readonly history: History;
  readonly facts: Pick<RollbackFacts, "checks" | "scores">;
  readonly beginning: Beginning | null;
}

export interface Beginning {
  /** `RUN@n`. */
  readonly id: string;
  readonly tree: string;
}

/** One journal in one pass. `to`: the checkpoint that it is read up to, whether it is kept or not; null: all of it. */
export async function readJournal(
  store: Store,
  { run, to }: { readonly run: string; readonly to: number | null },
): Promise<ReadJournal> {
  const history = new HistoryReader(sha256);
  const facts = new FactsReader();
  let beginning: Beginning | null = null;
  for await (const entry of store.readJournal({ run })) {
    history.read(entry);
    facts.read(entry);
    if (entry.kind !== "checkpoint") continue;
    const { sequence, tree } = entry.body;
    if (beginning === null && typeof sequence === "number" && typeof tree === "string")
      beginning = { id: `${run}@${sequence}`, tree };
    if (to !== null && sequence === to) break;
  }
  return { history: history.history(), facts: facts.facts({ run, state: { kind: "open" }, known: [] }), beginning };
}

/** What a fork comes from, nearest first, and what was done there up to the fork, oldest first. A parent that is not in this store is named all the same. */
export async function readLineage(
  store: Store,
  forkedFrom: CheckpointParent | null,
): Promise<{
  readonly points: readonly LineagePoint[];
  readonly steps: readonly HistoryStep[];
  readonly beginning: Beginning | null;
}> {
  const points: LineagePoint[] = [];
  let beginning: Beginning | null = null;
  let steps: readonly HistoryStep[] = [];
  for (let parent = forkedFrom; parent !== null;) {
    const point = pointOf(parent);
    if (points.some(({ run }) => run === point.run)) break;
    points.push(point);
    const summary = await store.getRun(point.run);
    if (summary === undefined) break;
    const read = await readJournal(store, { run: point.run, to: point.sequence });
    steps = [...read.history.steps, ...steps];
    beginning = read.beginning ?? beginning;
    parent = summary.forkedFrom;
  }
  return { points, steps, beginning };
}

function pointOf({ id }: CheckpointParent): LineagePoint {
  const sign = id.lastIndexOf("@");
  return { run: id.slice(0, sign), sequence: Number(id.slice(sign + 1)) };
}
