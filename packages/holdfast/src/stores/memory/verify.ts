import { isDeepStrictEqual } from "node:util";
import type { MemoryRun, MemoryWorld } from "./world.ts";
import { birthDigest, entryHash } from "../../core/journal/chain.ts";
import { foldEffects } from "../../core/effect/effect-fold.ts";
import { foldRun } from "../../core/journal/run-fold.ts";
import { canonicalJson, createMemo, encode } from "../../core/values/index.ts";
import type { Problem, VerifyEvent } from "../../ports/store.ts";
import { sha256 } from "../../system/hash.ts";

/** Nothing at rest can be damaged here; it shows what verification means. */
export function* verifyWorld(
  world: MemoryWorld,
  { only, scope }: { readonly only: MemoryRun | null; readonly scope: "all" | "journal" },
): Generator<VerifyEvent> {
  const runs = only === null ? [...world.runs.values()] : [only];
  let entries = 0;
  let checkpoints = 0;
  let problems = 0;
  for (const run of runs) {
    for (const what of verifyRun(run, scope)) {
      problems += 1;
      yield { kind: "problem", problem: problemOf(run, what) };
    }
    entries += run.entries.length;
    checkpoints += run.checkpoints.size;
    yield { kind: "progress", run: run.run.id, checked: run.entries.length };
  }
  yield {
    kind: "summary",
    ok: problems === 0,
    runs: runs.length,
    entries,
    checkpoints,
    chunks: world.chunks.size,
    problems,
  };
}

function* verifyRun(run: MemoryRun, scope: "all" | "journal"): Generator<string> {
  let previous = birthDigest(run.run, sha256);
  for (const [i, entry] of run.entries.entries()) {
    const link = { ...entry, body: canonicalJson(entry.body) };
    if (entry.entry !== i + 1 || entryHash(previous, link, sha256) !== entry.hash) yield `The chain breaks at ${i + 1}`;
    previous = entry.hash;
  }
  if (!isDeepStrictEqual(foldRun(run.entries), run.fold)) yield "The run's state differs from its journal";
  const ledger = new Map(foldEffects(run.entries).map((effect) => [effect.key, effect]));
  if (!isDeepStrictEqual(ledger, run.effects)) yield "The ledger of effects differs from the journal";
  if (scope === "journal") return;
  for (const [sequence, { planes, root }] of run.checkpoints) {
    const sink = { put: () => 0 };
    const { digest } = encode({ value: planes, memo: createMemo(), hasher: sha256, sink });
    if (digest !== root) yield `The planes of checkpoint ${sequence} do not give their digest`;
  }
}

function problemOf(run: MemoryRun, what: string): Problem {
  return {
    code: "STORE_CORRUPT",
    run: run.run.id,
    entry: null,
    sequence: null,
    what,
    trustedTo: null,
    newestIntact: null,
  };
}
