import type { Store } from "../../ports/store.ts";

/** What is wrong with the entries of a run, their chain, and what is folded from them; not with what its checkpoints hold. */
export async function journalDamage(store: Store, run: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const event of store.verify({ run, scope: "journal" }))
    if (event.kind === "problem") found.push(event.problem.what);
  return found;
}
