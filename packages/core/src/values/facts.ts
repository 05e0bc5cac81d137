import type { Base } from "./captured.ts";
import type { Encoding, Memo } from "./memo.ts";
import type { Watch } from "./watch.ts";

/** What is known of one captured container. Forgetting any of it costs time only. */
export interface Facts {
  /** May be an upper bound; 1 is a container without containers in it. */
  height: number;
  base: Base | undefined;
  /** Of the value that capture returned last, and through it of all inside. */
  watch: Watch | undefined;
  /** Whose encodings these are. */
  memo: Memo | undefined;
  encoding: Encoding | undefined;
  /** Where it is one chunk only as an element of an array. */
  element: Encoding | undefined;
}

/** Gives back what it gets, so that the private field of a class built on it lies on that. */
// oxlint-disable-next-line no-extraneous-class
class Given {
  constructor(value: object) {
    return value;
  }
}

/**
 * The facts lie on the container itself, where nobody sees them: an entry in a WeakMap costs about six times as much, and
 * the collector goes through all of them. `#facts` is known to this class alone.
 */
class Marked extends Given {
  readonly #facts: Facts;

  constructor(value: object, facts: Facts) {
    super(value);
    this.#facts = facts;
  }

  static factsOf(value: object): Facts | undefined {
    return #facts in value ? value.#facts : undefined;
  }
}

/** Of those that were frozen before anything was known of them: the language may one day refuse to mark them. */
const others = new WeakMap<object, Facts>();

export function factsOf(value: object): Facts | undefined {
  return Marked.factsOf(value) ?? others.get(value);
}

/** Best before it is frozen. */
export function noteHeight(value: object, height: number): void {
  const known = factsOf(value);
  if (known !== undefined) {
    known.height = height;
    return;
  }
  const facts: Facts = {
    height,
    base: undefined,
    watch: undefined,
    memo: undefined,
    encoding: undefined,
    element: undefined,
  };
  if (Object.isExtensible(value)) void new Marked(value, facts);
  else others.set(value, facts);
}
