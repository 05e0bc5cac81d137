import type { NewEntry } from "../../core/journal/journal.ts";
import { isJsonArray } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import type { Environment } from "../../core/replay/environment.ts";
import type { RecordedCall, RecordedClock, RecordedEnvironment } from "../../core/replay/recorded-call.ts";
import { maskValue } from "../../core/mask.ts";
import { pureSha256 } from "../../core/sha256.ts";
import { canonicalJson, capture } from "../../core/values/index.ts";
import type { Agent, AgentEvent } from "../../ports/agent.ts";

/**
 * What a recorded run asked of the outside and was told, until the next commit takes it along. What no commit took has never been: whoever comes after a kill
 * asks again.
 */
export class Tape {
  /** Hides secrets, those of the environment included. */
  readonly mask: (text: string) => string;
  readonly #environment: () => Environment;
  readonly #waiting: NewEntry[] = [];
  readonly #told = new Set<string>();
  readonly #versions = new Map<string, Promise<string | null>>();
  /** Of the stage that runs now. */
  visit = 0;

  constructor(params: { readonly environment: () => Environment; readonly mask: (text: string) => string }) {
    this.mask = params.mask;
    this.#environment = params.environment;
  }

  /** A copy without secrets. */
  masked(value: unknown): Json {
    return maskValue(capture(value), this.mask);
  }

  note(call: RecordedCall): void {
    this.#waiting.push({ kind: "call.recorded", body: { ...call } });
  }

  /** What the clock said. Readings in a row are one note. */
  read(value: number): number {
    const { visit } = this;
    const last = this.#waiting.at(-1)?.body;
    const values = last?.["kind"] === "clock" && last["visit"] === visit ? last["values"] : undefined;
    if (isJsonArray(values)) this.#waiting.pop();
    const note: RecordedClock = {
      kind: "clock",
      visit,
      values: [...(isJsonArray(values) ? values.map(Number) : []), value],
    };
    this.note(note);
    return value;
  }

  /** For the commit that is made now. */
  drain(): readonly NewEntry[] {
    return this.#waiting.length === 0 ? NONE : this.#waiting.splice(0);
  }

  /** Its values once: most calls of a process have the same. */
  environment(): RecordedEnvironment {
    const { hash, values } = this.#environment();
    if (this.#told.has(hash)) return { hash, values: null };
    this.#told.add(hash);
    return { hash, values };
  }

  /** Asked once a process. An agent that cannot tell is not the worse for it. */
  version(agent: Agent): Promise<string | null> {
    const known = this.#versions.get(agent.name);
    if (known !== undefined) return known;
    const asked = agent.probe().then(
      ({ version }) => version,
      () => null,
    );
    this.#versions.set(agent.name, asked);
    return asked;
  }
}

const NONE: readonly NewEntry[] = [];

/** Beyond this, what an agent said is in its log and in the digest only. */
const KEPT_CHARACTERS = 1_000_000;

/** What an agent let hear while it worked. Its raw lines are what these were read from; they are in the log. */
export class Hearing {
  readonly #events: Json[] = [];
  #characters = 0;
  #left = 0;
  #digest = "";
  argv: readonly string[] | null = null;

  hear(event: AgentEvent): void {
    if (event.kind === "raw") return;
    if (event.kind === "process") {
      this.argv = event.argv;
      return;
    }
    const kept = capture(event);
    const text = canonicalJson(kept);
    this.#digest = pureSha256(`${this.#digest}\n${text}`);
    this.#characters += text.length;
    if (this.#characters > KEPT_CHARACTERS) this.#left += 1;
    else this.#events.push(kept);
  }

  heard(): { readonly events: readonly Json[]; readonly left: number; readonly digest: string } {
    return { events: this.#events, left: this.#left, digest: this.#digest };
  }
}
