/**
 * What a scripted model says, and how it fails. Which step answers a request follows from the request alone: the rule whose pattern is in the
 * last text of the user, and in it the step after as many tool calls as the model has made since. So retries, side calls and a session that
 * is gone on with after a kill cannot shift it.
 */
export interface ModelScript {
  readonly rules: readonly ModelRule[];
  /** For what no rule fits, and for requests without tools (titles, summaries). By default the word "ok". */
  readonly otherwise?: ModelStep;
}

export interface ModelRule {
  readonly match: RegExp;
  /** After the last one it is played again: a model that is asked on says the same. */
  readonly steps: readonly ModelStep[];
}

export interface ModelStep {
  /** Streamed line by line. */
  readonly text?: string;
  readonly tool?: ModelTool;
  /** By default 100 in and 20 out. */
  readonly usage?: Partial<ModelUsage>;
  /** Before the first byte. */
  readonly delayMs?: number;
  /** Between the events of a stream. */
  readonly eventDelayMs?: number;
  readonly fault?: ModelFault;
}

export interface ModelTool {
  readonly name: string;
  /** A string is the input of a freeform tool, which only the Responses protocol has. */
  readonly input: Readonly<Record<string, unknown>> | string;
}

/** Input is what no cache held. The other makers' "input" is the sum of the first three. */
export interface ModelUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
}

/** `times`: only the first so many requests for this step; without it, all of them. */
export type ModelFault = { readonly times?: number } & (
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly message?: string;
      /** The maker's own word: error.type, error.code or error.status. */
      readonly type?: string;
      /** In place of the maker's shape. */
      readonly body?: unknown;
    }
  /** A proxy or a captive portal answers with a page of its own. */
  | { readonly kind: "html"; readonly status: number }
  /** The model declines to answer, in the way in which the maker's interface says so. */
  | { readonly kind: "refusal" }
  /** The stream begins, and the connection breaks in the middle. */
  | { readonly kind: "cut" }
  /** The stream begins, and nothing follows. */
  | { readonly kind: "silent" }
  /** Accepted, never answered. */
  | { readonly kind: "hang" }
);

export const NO_USAGE: ModelUsage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };
