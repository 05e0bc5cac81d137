import type { JournalEntry } from "../journal/journal.ts";
import { isJsonObject } from "../json.ts";
import type { EffectFact } from "./facts.ts";

/** What was done to the world, and whether a run that goes back behind it finds it again. */
export class EffectNotes {
  readonly #effects = new Map<string, EffectFact>();
  readonly #lasting = new Set<string>();

  read({ entry, kind, body }: Pick<JournalEntry, "entry" | "kind" | "body">): void {
    const { key } = body;
    if (typeof key !== "string") return;
    const known = this.#effects.get(key);
    switch (kind) {
      case "effect.intended": {
        if (known !== undefined && known.unsafe !== OPEN) return;
        const { kind: what, target, detail } = body;
        if (typeof what !== "string" || typeof target !== "string") return;
        const lasts = isJsonObject(detail) && detail["rollback"] === "refuse";
        if (lasts) this.#lasting.add(key);
        this.#effects.set(key, { key, kind: what, target, entry, unsafe: OPEN });
        return;
      }
      case "effect.settled":
        if (known === undefined) return;
        // The target said no, and nothing was changed there.
        if (body["outcome"] === "failed") this.#effects.delete(key);
        else this.#effects.set(key, { ...known, entry, unsafe: this.#lasting.has(key) ? LASTS : null });
        return;
      default:
    }
  }

  list(): readonly EffectFact[] {
    return [...this.#effects.values()];
  }
}

const OPEN = "nobody knows whether it happened, so it could be done twice";
const LASTS = "it cannot be undone, and older files do not fit what it left";
