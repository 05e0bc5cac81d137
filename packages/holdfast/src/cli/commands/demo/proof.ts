import type { JournalEntry } from "../../../core/journal/journal.ts";
import type { Json } from "../../../core/json.ts";
import { countText } from "../../output/count-text.ts";

export interface DemoFacts {
  readonly run: string;
  readonly entries: readonly JournalEntry[];
  /** At the remote, without the base. */
  readonly branches: readonly string[];
  /** Lines of the forge's own log: what it was asked to change. */
  readonly forgeLog: readonly { readonly what: string; readonly key: string | null }[];
  readonly verified: { readonly ok: boolean; readonly entries: number; readonly checkpoints: number };
  readonly leftBehind: number;
  readonly tree: string;
  /** Of a run that nobody killed. */
  readonly controlTree: string;
  readonly deaths: number;
}

export interface Claim {
  readonly claim: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** What was promised, each from another witness: the remote, the forge's log, the journal, the digests, the files. */
export function prove(facts: DemoFacts): readonly Claim[] {
  const finished = countBy(
    facts.entries,
    "step.finished",
    (body) => `${String(body["visit"])}/${String(body["step"])}`,
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
      detail: `${countText(settled.size, "effect")}, each settled once${adopted.length === 0 ? "" : `; ${adopted.length} found already done and taken over`}`,
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
      detail: `tree ${facts.tree.slice(0, 12)}, as of a run that nobody killed`,
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
