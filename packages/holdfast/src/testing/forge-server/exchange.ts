/** A request as the routes of a loopback forge see it: parsed, and without its transport. */
export interface Incoming {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
  /** Where the client thinks that it is talking to: scheme and host. */
  readonly origin: string;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text is sent as it is, anything else as JSON; undefined: no body. */
  readonly body?: unknown;
}

export type Handler = (incoming: Incoming) => Promise<Reply>;

/** Thrown in a route where there is nothing to go on with. */
export class Refused extends Error {
  readonly reply: Reply;

  constructor(reply: Reply) {
    super(`refused with ${reply.status}`);
    this.reply = reply;
  }
}

/** The texts, numbers and lists of a JSON body, each checked when it is asked for. */
export function fieldsOf(body: unknown): Readonly<Record<string, unknown>> {
  return typeof body === "object" && body !== null && !Array.isArray(body) ? { ...body } : {};
}

export function textOf(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

export function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}
