/** What goes wrong with one request, and how often. `after`: the server has acted already, and the client does not get to know. */
export interface Fault {
  /** Tested against `METHOD /path?query`. */
  readonly match: RegExp;
  readonly times: number;
  readonly when: "before" | "after";
  readonly effect:
    | {
        readonly kind: "answer";
        readonly status: number;
        readonly headers?: Readonly<Record<string, string>>;
        readonly body?: unknown;
      }
    /** The connection ends without an answer. */
    | { readonly kind: "drop" }
    /** The answer never comes. */
    | { readonly kind: "hang" }
    /** Taken as it should be, and acted upon only then, whether the client is still there or not. */
    | { readonly kind: "late"; readonly until: Promise<void> }
    /** The answer stops in the middle of its body. */
    | { readonly kind: "cut" };
}

/** Faults in the order in which they were set; each is used up by the requests that it matches. */
export class FaultTable {
  #faults: { fault: Fault; left: number }[] = [];

  set(...faults: readonly Fault[]): void {
    this.#faults.push(...faults.map((fault) => ({ fault, left: fault.times })));
  }

  clear(): void {
    this.#faults = [];
  }

  /** How many requests are still to be spoilt. */
  get left(): number {
    return this.#faults.reduce((sum, { left }) => sum + left, 0);
  }

  take(request: string): Fault | null {
    const found = this.#faults.find(({ fault, left }) => left > 0 && fault.match.test(request));
    if (found === undefined) return null;
    found.left -= 1;
    return found.fault;
  }
}
