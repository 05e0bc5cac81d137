import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import type { Store } from "../../ports/store.ts";

const PAGE = 500;

/** Every checkpoint of a run, newest first, read in pages: memory does not follow the history's length. */
export async function* allCheckpoints(store: Store, run: string): AsyncGenerator<CheckpointSummary> {
  let before: number | undefined;
  for (;;) {
    const page = await store.listCheckpoints({ run, limit: PAGE, ...(before === undefined ? {} : { before }) });
    yield* page;
    before = page.at(-1)?.sequence;
    if (page.length < PAGE || before === undefined) return;
  }
}
