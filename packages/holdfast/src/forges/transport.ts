import type { Json, JsonObject } from "../core/json.ts";

/**
 * One way to a forge's API. A program that holds the login and plain HTTP with a token give the same answers, so that everything
 * above is written once.
 */
export interface Transport {
  /** For people: the program's name, or "token". */
  readonly name: string;
  /** What to do when the forge does not let us in. */
  readonly fix: string;
  /** Never rejects. Nothing that it returns carries a credential. */
  send(request: ApiRequest): Promise<ApiAnswer>;
  /**
   * The same way; a process that it starts carries this mark. One that outlives us may still deliver what it was given, so whoever comes
   * after us ends it before anything is looked up. What is sent from within this process ends with it.
   */
  marked(mark: string): Transport;
}

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH";
  /** Below the API's root, with its query: `repos/o/r/issues?page=2`. */
  readonly path: string;
  readonly body?: JsonObject;
}

export type ApiAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Names in lower case. */
      readonly headers: ReadonlyMap<string, string>;
      /** Parsed JSON, or the text that came instead; undefined: none. */
      readonly body: Json | undefined;
    }
  /** No complete answer came: whether the forge acted is not known. */
  | { readonly kind: "lost"; readonly reason: string; readonly why?: LossCause }
  /** There is no login to go with; nothing was sent. */
  | { readonly kind: "no_login"; readonly reason: string };

/** "connection": it could not be made, or ended before the answer was complete. */
export type LossCause = "connection";
