import { spawn } from "node:child_process";
import type { IncomingMessage, ServerResponse } from "node:http";
import { dirname, basename } from "node:path";

/** Git's own smart HTTP server, as a CGI program, on one bare repository: fetches and pushes are real. */
export function serveGit(params: {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly bare: string;
  /** What follows the repository in the path: `/info/refs`. */
  readonly rest: string;
  readonly query: string;
}): void {
  const { request, response, bare } = params;
  const child = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: dirname(bare),
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "http.receivepack",
      GIT_CONFIG_VALUE_0: "true",
      PATH_INFO: `/${basename(bare)}${params.rest}`,
      QUERY_STRING: params.query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      CONTENT_LENGTH: request.headers["content-length"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      REMOTE_USER: "somebody",
      REMOTE_ADDR: "127.0.0.1",
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.stdin.on("error", () => undefined);
  request.pipe(child.stdin);
  let head: Buffer | null = Buffer.alloc(0);
  child.stdout.on("data", (chunk: Buffer) => {
    if (head === null) {
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    const { status, headers } = parseHead(head.subarray(0, end).toString("latin1"));
    response.writeHead(status, headers);
    response.write(head.subarray(end + 4));
    head = null;
  });
  child.on("close", () => {
    if (head !== null) response.writeHead(500);
    response.end();
  });
}

function parseHead(text: string): { readonly status: number; readonly headers: Readonly<Record<string, string>> } {
  const pairs = text.split("\r\n").flatMap((line) => {
    const at = line.indexOf(":");
    return at === -1 ? [] : [[line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()] as const];
  });
  const { status = "200", ...headers } = Object.fromEntries(pairs);
  return { status: Number.parseInt(status, 10), headers };
}
