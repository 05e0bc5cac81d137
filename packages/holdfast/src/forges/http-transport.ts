import { hideSecrets } from "./hide-secrets.ts";
import { parseBody } from "./parse-response.ts";
import type { ApiAnswer, ApiRequest, Transport } from "./transport.ts";

/** Plain HTTP with a token. It goes to `root` alone: fetch takes the header off when it is led to another host. */
export function createHttpTransport(params: {
  /** `https://api.github.com`. */
  readonly root: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What must never be seen in a message. */
  readonly token: string;
  readonly fix: string;
  readonly timeoutMs?: number;
}): Transport {
  const { root, token, timeoutMs = 60_000 } = params;
  const transport: Transport = {
    name: "token",
    fix: params.fix,
    async send(request) {
      try {
        return await ask(`${root}/${request.path}`, request, params.headers, timeoutMs);
      } catch (error) {
        const reason = hideSecrets(reasonOf(error, timeoutMs), [token]);
        return { kind: "lost", reason, ...(isTimeout(error) ? {} : { why: "connection" }) };
      }
    },
    marked: () => transport,
  };
  return transport;
}

async function ask(
  url: string,
  request: ApiRequest,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<ApiAnswer> {
  const { method, body } = request;
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const answered = new Map([...response.headers].map(([name, value]) => [name.toLowerCase(), value]));
  return parseBody(response.status, answered, await response.text());
}

/** fetch says only "fetch failed", and has the reason behind it. */
function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (isTimeout(error)) return `no answer within ${timeoutMs / 1000} s`;
  return error.cause instanceof Error && error.cause.message !== "" ? error.cause.message : error.message;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}
