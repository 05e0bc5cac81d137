// A git remote over http, which can break off or hold a chosen answer: git http-backend behind a small server.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { type Server, createServer } from "node:http";
import { dirname } from "node:path";

/** Accepts connections, and sends nothing. */
export async function startSilentRemote(registerCleanup: (remove: () => void) => void): Promise<{
  readonly url: string;
  /** Resolves when git has asked this often. */
  readonly asked: (times: number) => Promise<void>;
}> {
  const requests: unknown[] = [];
  const server = createServer((request) => void requests.push(request)).listen(0, "127.0.0.1");
  registerCleanup(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${portOf(server)}/shop.git`,
    async asked(times) {
      while (requests.length < times) await once(server, "request");
    },
  };
}

/** What happens to the answer of request number `request`, from 1 on. */
export interface HttpFault {
  readonly request: number;
  /**
   * "before": git does not get the request. "middle": half of the answer is sent. "after": git has done its work, and no answer is sent.
   * "whole": the answer is sent after `meanwhile`.
   */
  readonly at: "before" | "middle" | "after" | "whole";
  /** Called before the connection is cut or answered. The server waits for it. */
  readonly meanwhile?: () => Promise<void>;
}

export interface HttpRemote extends AsyncDisposable {
  readonly url: string;
  /** Requests since the last `expectFault`. */
  readonly requests: number;
  /** Counts from 1 again. Null: every request is answered. */
  expectFault(fault: HttpFault | null): void;
}

/** Serves the bare repository at an address of this computer, and accepts pushes. */
export async function startHttpRemote(bare: string, host = "127.0.0.1"): Promise<HttpRemote> {
  let fault: HttpFault | null = null;
  let requests = 0;
  const server = createServer((request, response) => {
    void (async () => {
      requests += 1;
      const broken = fault?.request === requests ? fault : null;
      const cut = async (): Promise<void> => {
        await broken?.meanwhile?.();
        response.destroy();
      };
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(Buffer.from(chunk));
      if (broken?.at === "before") return await cut();
      const [path = "", query = ""] = (request.url ?? "").split("?");
      const { head, body } = await runBackend(
        bare,
        {
          REQUEST_METHOD: request.method ?? "",
          PATH_INFO: path,
          QUERY_STRING: query,
          CONTENT_TYPE: request.headers["content-type"] ?? "",
          HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
          GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
          CONTENT_LENGTH: String(Buffer.concat(chunks).length),
        },
        Buffer.concat(chunks),
      );
      if (broken?.at === "after") return await cut();
      for (const [name, value] of head) if (name !== "Status") response.setHeader(name, value);
      response.statusCode = Number((head.get("Status") ?? "200").split(" ")[0]);
      response.setHeader("Content-Length", body.length);
      if (broken?.at === "whole") await broken.meanwhile?.();
      if (broken === null || broken.at === "whole") return void response.end(body);
      response.write(body.subarray(0, Math.ceil(body.length / 2)));
      await cut();
    })().catch(() => response.destroy());
  });
  server.listen(0, host);
  await once(server, "listening");
  return {
    url: `http://${host}:${portOf(server)}/${bare.slice(dirname(bare).length + 1)}`,
    get requests() {
      return requests;
    },
    expectFault(next) {
      fault = next;
      requests = 0;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return address.port;
}

async function runBackend(
  bare: string,
  variables: Readonly<Record<string, string>>,
  input: Buffer,
): Promise<{ readonly head: ReadonlyMap<string, string>; readonly body: Buffer }> {
  const settings = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "http.receivepack", GIT_CONFIG_VALUE_0: "true" };
  const child = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: dirname(bare),
      GIT_HTTP_EXPORT_ALL: "1",
      ...settings,
      ...variables,
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(Buffer.from(chunk));
  const answer = Buffer.concat(chunks);
  const end = answer.indexOf("\r\n\r\n");
  const lines = answer.toString("latin1", 0, end).split("\r\n");
  const head = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  return { head, body: answer.subarray(end + 4) };
}
