import type { Planes } from "@holdfast/core/checkpoint";
import type { JournalEntry } from "@holdfast/core/journal";
import type { Store } from "@holdfast/core/store";

/** What a store holds about one run. */
export interface RunStory {
  /** Of its newest checkpoint. */
  planes(): Promise<Planes>;
  journal(): Promise<readonly JournalEntry[]>;
  /** "stage:event" in the order of the journal. */
  trail(): Promise<readonly string[]>;
  /** How many steps were finished whose name begins like this: with the name of an agent call, how many calls there were. */
  calls(step: string): Promise<number>;
}

/** Asked for the run each time: its id may be known only once it has begun. */
export function runStory(store: Store, run: () => string): RunStory {
  const journal = () => Array.fromAsync(store.readJournal({ run: run() }));
  return {
    journal,
    async planes() {
      const latest = await store.latest(run());
      if (latest === undefined) throw new Error("the run has no checkpoint");
      return latest.planes;
    },
    async trail() {
      const ended = (await journal()).filter((entry) => entry.kind === "stage.ended");
      return ended.map(({ body }) => `${String(body["stage"])}:${String(body["event"])}`);
    },
    async calls(step) {
      const finished = (await journal()).filter(({ kind }) => kind === "step.finished");
      return finished.filter(({ body }) => String(body["step"]).startsWith(step)).length;
    },
  };
}
