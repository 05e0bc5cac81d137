import { type Socket, connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { LiveEvents } from "./live.ts";
import { Plans } from "./plans.ts";
import { Repositories } from "./repositories.ts";
import { type RunningServer, createApp, startServer } from "./server.ts";
import { Sessions } from "./session.ts";

/** The real server over no repository. */
async function serve(limits: Parameters<typeof startServer>[0]["limits"] = {}): Promise<{
  readonly server: RunningServer;
  readonly live: LiveEvents;
  readonly repositories: Repositories;
  readonly sessions: Sessions;
}> {
  const repositories = new Repositories({ list: () => [], now: () => Date.now(), waits: false });
  const live = new LiveEvents(repositories);
  const plans = new Plans({ repositories, program: [process.execPath], env: {}, by: "test" });
  const sessions = new Sessions(() => Date.now(), TOKEN);
  const files = new Map([["/large.js", { type: "text/javascript", body: new Uint8Array(4_000_000) }]]);
  const fixed = { version: "0", readOnly: false, secret: "secret", files };
  const server = await startServer({
    address: "127.0.0.1",
    port: 0,
    limits,
    allows: (authorization) => sessions.allows(authorization),
    app: (hosts) => createApp({ ...fixed, repositories, live, plans, sessions, hosts }),
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return { server, live, repositories, sessions };
}

const TOKEN = "t".repeat(40);

async function dial({ port }: RunningServer, text: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  socket.write(text);
  return socket;
}

/** Everything that the server sends until it ends the connection. */
async function answerTo(server: RunningServer, text: string): Promise<string> {
  const socket = await dial(server, text);
  let answer = "";
  socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
  return answer;
}

const QUICK = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

test.each([
  ["nothing", ""],
  ["half of its headers", "GET / HTTP/1.1\r\nHost: 127"],
  [
    "half of its body",
    `POST /api/session HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{`,
  ],
])("a connection that sends %s is cut off", async (_what, text) => {
  const { server } = await serve(QUICK);
  const answer = await answerTo(server, text.replace("HOST", `127.0.0.1:${server.port}`));
  expect(answer).toMatch(/^HTTP\/1.1 408 |^$/);
});

test("connections that do not send their request, or do not read the answer, keep no page out", async () => {
  const { server } = await serve();
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  const post = `POST /api/session HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{`;
  const large = `GET /large.js HTTP/1.1\r\n${host}\r\n`;
  for (const text of ["", "GET / HTTP/1.1\r\nHost: 127", post, `GET / HTTP/1.1\r\n${host}\r\n`, large])
    for (const socket of await Promise.all(Array.from({ length: 300 }, () => dial(server, text)))) socket.pause();
  const request = `GET /api/boot HTTP/1.1\r\n${host}Authorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`;
  expect(await answerTo(server, request)).toMatch(/^HTTP\/1.1 200 /);
});

test.each([
  ["two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"],
  ["a length and chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["a bare line feed", "X: 1\nY: 2\r\n\r\n"],
  ["a space before the colon", "Content-Length : 2\r\n\r\n{}"],
  ["an obsolete line fold", "X: 1\r\n 2\r\n\r\n"],
  ["headers of 20 kB", `X: ${"x".repeat(20_000)}\r\n\r\n`],
])("a request with %s is refused, and what follows it is not a request", async (_what, rest) => {
  const { server } = await serve(QUICK);
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  const smuggled = `GET /api/boot HTTP/1.1\r\n${host}Authorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`;
  const answer = await answerTo(server, `POST /api/session HTTP/1.1\r\n${host}${rest}${smuggled}`);
  expect(answer).toMatch(/^HTTP\/1.1 4\d\d /);
  expect(answer.match(/HTTP\/1.1 /g)).toHaveLength(1);
});

test("of two Host headers neither lets the other in", async () => {
  const { server } = await serve();
  const own = `127.0.0.1:${server.port}`;
  const ask = (first: string, second: string): Promise<string> =>
    answerTo(server, `GET /api/boot HTTP/1.1\r\nHost: ${first}\r\nHost: ${second}\r\nConnection: close\r\n\r\n`);
  expect(await ask("evil.example", own)).toMatch(/^HTTP\/1.1 4(?:00|21) /);
  expect(await ask(own, "evil.example")).toMatch(/^HTTP\/1.1 4(?:00|21) /);
});

test("a page that does not read is cut off, and costs no memory", async () => {
  const { server, live, repositories } = await serve();
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  const socket = await dial(server, `GET /api/events HTTP/1.1\r\n${host}Authorization: Bearer ${TOKEN}\r\n\r\n`);
  socket.pause();
  while (live.streams === 0) await setImmediate();
  while (live.streams > 0) {
    for (let at = 0; at < 200; at += 1) repositories.onRead();
    await setImmediate();
  }
});

test("a program that guesses codes does not keep the user's code out", async () => {
  const { server, sessions } = await serve();
  const ask = (code: string): Promise<string> => {
    const body = JSON.stringify({ code });
    const head = `Host: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\nConnection: close\r\n`;
    return answerTo(server, `POST /api/session HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`);
  };
  for (const answer of await Promise.all(Array.from({ length: 50 }, () => ask("guess"))))
    expect(answer).toMatch(/^HTTP\/1.1 401 /);
  expect(await ask(sessions.code(60_000))).toMatch(/^HTTP\/1.1 200 /);
});

test("a token that the user chose stays valid, however many browsers there are", () => {
  const sessions = new Sessions(() => 0, TOKEN);
  const tokens = Array.from({ length: 150 }, () => sessions.trade(sessions.code(1000)) ?? "");
  expect(sessions.allows(`Bearer ${TOKEN}`)).toBe(true);
  expect(tokens.filter((token) => sessions.allows(`Bearer ${token}`))).toHaveLength(100);
});
