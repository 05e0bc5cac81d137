/** The real `holdfast ui` for tests, and requests to it as a page makes them. */
import type { ChildProcess } from "node:child_process";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Action, ApplyResult, Failure, Plan } from "@holdfast/dashboard/api";
import type { BuiltCommand } from "@holdfast/test-support/built-command";

export interface PageServer extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly origin: string;
  readonly port: number;
  readonly token: string;
  readonly code: string;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  /** Any request, with exactly these headers. */
  send(params: Sent): Promise<Answer>;
  plan(action: Action): Promise<Plan>;
  /** Plans and applies. */
  act(action: Action): Promise<ApplyResult>;
  events(topics: string): AsyncGenerator<{ readonly event: string; readonly data: unknown }>;
}

export interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends the answer once it has this text: for streams. */
  readonly until?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export async function startPage(
  command: Pick<BuiltCommand, "start">,
  params: { readonly cwd: string; readonly args?: readonly string[]; readonly env?: Readonly<Record<string, string>> },
): Promise<PageServer> {
  const child = command.start(["ui", "--no-open", "--json", "--port", "0", ...(params.args ?? [])], {
    cwd: params.cwd,
    ...(params.env === undefined ? {} : { env: params.env }),
  });
  const { url, port } = await started(child);
  const { origin, hostname } = new URL(url);
  const code = url.slice(url.indexOf("#k=") + 3);
  const send = (sent: Sent): Promise<Answer> => sendTo(hostname, port, sent);
  const json = { "content-type": "application/json" };
  const opened = await send({ method: "POST", path: "/api/session", headers: json, body: JSON.stringify({ code }) });
  const { token } = JSON.parse(opened.text) as { readonly token: string };
  const headers = { authorization: `Bearer ${token}` };
  const read = <T>(answer: Answer): T => {
    // The server and this test are checked against the same types.
    if (answer.status < 400) return JSON.parse(answer.text) as T;
    const { error } = JSON.parse(answer.text) as Failure;
    throw Object.assign(new Error(`${answer.status} ${error?.code}: ${error?.message}`), { answer });
  };
  const server: PageServer = {
    child,
    origin,
    port,
    token,
    code,
    send,
    async get<T>(path: string) {
      // On a busy machine a store may take longer than an answer waits for it. The answer says so, and the page asks again.
      for (;;) {
        const answer = await send({ path, headers });
        if (!answer.text.includes('"STORE_BUSY"')) return read<T>(answer);
        await sleep(100);
      }
    },
    async post<T>(path: string, body: unknown) {
      // A test may ask more often than a user can.
      for (;;) {
        const sent = { method: "POST", path, headers: { ...headers, ...json }, body: JSON.stringify(body) };
        const answer = await send(sent);
        if (answer.status !== 429) return read<T>(answer);
        await sleep(1000);
      }
    },
    plan: (action) => server.post<Plan>("/api/plans", action),
    async act(action) {
      const { id, digest } = await server.plan(action);
      return await server.post<ApplyResult>(`/api/plans/${id}/apply`, { digest, key: `test-${id}` });
    },
    async *events(topics) {
      const response = await fetch(`${origin}/api/events?topics=${encodeURIComponent(topics)}`, { headers });
      let text = "";
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString("utf8");
        for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
          const fields = new Map(
            text
              .slice(0, end)
              .split("\n")
              .map((line) => split(line)),
          );
          text = text.slice(end + 2);
          yield {
            event: fields.get("event") ?? "",
            data: JSON.parse(fields.get("data") ?? "null"),
          };
        }
      }
    },
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => child.once("close", resolve));
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGINT");
        await ended;
      }
    },
  };
  return server;
}

function split(line: string): readonly [string, string] {
  const at = line.indexOf(": ");
  return [line.slice(0, at), line.slice(at + 2)];
}

function started(child: ChildProcess): Promise<{ readonly url: string; readonly port: number }> {
  return new Promise((resolve, reject) => {
    let [stdout, stderr] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      if (stdout.trimEnd().endsWith("}")) resolve(JSON.parse(stdout));
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.once("close", (status) => reject(new Error(`holdfast ui exited with ${status}: ${stdout}${stderr}`)));
  });
}

function sendTo(
  host: string,
  port: number,
  { method = "GET", path, headers = {}, body, until }: Sent,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
    const sent = request({ host, port, method, path, headers: { ...length, ...headers } }, (response) => {
      let text = "";
      const end = (): void => resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (until === undefined || !text.includes(until)) return;
        end();
        response.destroy();
      });
      response.on("end", end);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
