import { setTimeout } from "node:timers/promises";
import * as z from "zod/mini";
import { HoldfastError } from "../core/error.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Clock } from "../ports/clock.ts";
import { judgeAnswer, type Judged } from "./judge-answer.ts";
import type { ApiRequest, Transport } from "./transport.ts";

/** A forge's API with what every call needs: reads are tried again, lists are complete, writes tell apart "no" and "nobody knows". */
export interface Api {
  /** null: not there, or hidden from us. */
  read<T>(path: string, shape: z.ZodMiniType<T>): Promise<T | null>;
  /** All pages; null as for `read`. `items` finds the list in a page. */
  list<T>(
    path: string,
    shape: z.ZodMiniType<T>,
    items?: (page: Json | undefined) => unknown,
  ): Promise<readonly T[] | null>;
  write(request: ApiRequest & { readonly body: JsonObject }): Promise<Exclude<Judged, { kind: "turned_away" }>>;
  parse<T>(value: unknown, shape: z.ZodMiniType<T>, what: string): T;
  /** For a write whose outcome nobody knows, when looking for its result found nothing. */
  lost(what: string, lost: Omit<Extract<Judged, { kind: "lost" }>, "kind">): HoldfastError;
}

export interface ApiParams {
  /** For people: "GitHub". */
  readonly forge: string;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Before a read is tried again; doubled each time. */
  readonly pauseMs?: number;
}

export function createApi(params: ApiParams): Api {
  const { forge, transport, clock, pauseMs = 1000 } = params;

  const once = async (request: ApiRequest): Promise<Exclude<Judged, { kind: "turned_away" }>> => {
    const answer = await transport.send(request);
    const what = `${request.method} ${withoutQuery(request.path)}`;
    const judged = judgeAnswer(answer, { forge, what, fix: transport.fix, now: clock.now() });
    if (judged.kind === "turned_away") throw judged.error;
    return judged;
  };
  const get = async (path: string): Promise<Extract<Judged, { kind: "ok" | "absent" }>> => {
    for (let attempt = 1; ; attempt += 1) {
      const judged = await once({ method: "GET", path });
      if (judged.kind === "ok" || judged.kind === "absent") return judged;
      const what = `GET ${withoutQuery(path)}`;
      if (judged.kind === "refused")
        throw unreadable(forge, what, { reason: `status ${judged.status}: ${judged.message}` });
      if (attempt === ATTEMPTS) throw unreadable(forge, what, judged);
      await setTimeout(pauseMs * 2 ** (attempt - 1));
    }
  };
  const parse = <T>(value: unknown, shape: z.ZodMiniType<T>, what: string): T => {
    const parsed = z.safeParse(shape, value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
    throw unreadable(forge, what, { reason: `the answer has another shape than expected${where}` });
  };
  return {
    parse,
    async read(path, shape) {
      const judged = await get(path);
      return judged.kind === "absent" ? null : parse(judged.body, shape, `GET ${withoutQuery(path)}`);
    },
    async list(path, shape, items = (page) => page) {
      const found = [];
      for (let next: string | null = withSize(path); next !== null;) {
        const judged = await get(next);
        if (judged.kind === "absent") return null;
        found.push(...parse(items(judged.body), z.array(shape), `GET ${withoutQuery(path)}`));
        next = nextPage(withSize(path), judged.headers.get("link"));
      }
      return found;
    },
    write: once,
    lost: (what, loss) =>
      unreadable(forge, what, { ...loss, reason: `${loss.reason}; whether it was done is not known` }),
  };
}

/** Only the query is taken from the link: the way to the host stays ours. */
export function nextPage(path: string, link: string | undefined): string | null {
  const next = /<([^>]*)>\s*;\s*rel="?next"?/i.exec(link ?? "")?.[1];
  const query = next?.split("?")[1];
  return query === undefined ? null : `${withoutQuery(path)}?${query}`;
}

const ATTEMPTS = 3;

function withSize(path: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}per_page=100`;
}

function withoutQuery(path: string): string {
  return path.split("?")[0] ?? path;
}

function unreadable(
  forge: string,
  what: string,
  { reason, until, why }: Omit<Extract<Judged, { kind: "lost" }>, "kind">,
): HoldfastError {
  const failed = why === "connection" ? `The connection to ${forge} failed` : `${forge} gave no usable answer`;
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${failed} (${what}): ${reason}`,
    hint: "Try again when the network and the forge work; what was done already is found and not done again.",
    retry: "later",
    data: { ...(until === undefined ? {} : { until }), ...(why === undefined ? {} : { why }) },
  });
}
