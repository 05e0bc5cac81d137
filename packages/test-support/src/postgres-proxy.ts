// Stands between a client and a PostgreSQL server, and cuts the connection at a chosen statement.

import { mkdtempSync, rmSync } from "node:fs";
import { type Socket, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Cut {
  /** Counted from 1 over all connections since `cut` was called; or the next one that begins so. */
  readonly statement: number | "COMMIT" | "SELECT pg_notify";
  /** "before": the server does not get the statement. "after": it does, and the client gets no answer. */
  readonly when: "before" | "after";
  /** Refuse every later connection, as if the client's machine were gone. */
  readonly stay: boolean;
  /** Cut the other connections too. */
  readonly all?: boolean;
  /** The connection stays, and nothing comes back, also on its end: as if the server's machine were gone. */
  readonly silent?: boolean;
  /** What the client gets instead of the answer, such as what a broken device between them makes of it. */
  readonly garbage?: Buffer;
}

export interface PostgresProxy {
  url(of: string): string;
  cut(cut: Cut): void;
  /** How many statements the client has sent since `cut`. */
  sent(): number;
  /** How often the prepared statements that it has sent since `cut` had to be answered. A client can wait for each time. */
  asked(): number;
}

const SOCKET = ".s.PGSQL.5432";

export async function startProxy(server: string, later: (stop: () => void) => void): Promise<PostgresProxy> {
  const target = join(decodeURIComponent(/@([^/]+)\//.exec(server)?.[1] ?? ""), SOCKET);
  const directory = mkdtempSync(join(tmpdir(), "holdfast-proxy-"));
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  /** Gets nothing any more. */
  const mute = new WeakSet<Socket>();
  let plan: Cut | null = null;
  let count = 0;
  let asks = 0;
  let isDown = false;

  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    if (isDown) return void client.destroy();
    const backend = connect(target);
    client.on("end", () => {
      if (!mute.has(client)) client.end();
    });
    clients.add(client);
    client.on("close", () => clients.delete(client));
    for (const socket of [client, backend]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        if (socket === client || !mute.has(client)) client.destroy();
        backend.end();
      });
    }
    backend.on("data", (bytes) => {
      if (!mute.has(client)) client.write(bytes);
    });
    let pending = Buffer.alloc(0);
    let isStarted = false;
    /** Texts of the prepared statements, and that of the one whose parameters came last. */
    const prepared = new Map<string, string>();
    let bound = "";
    client.on("data", (bytes) => {
      if (mute.has(client)) return;
      pending = Buffer.concat([pending, bytes]);
      for (;;) {
        // The first message has no type.
        const head = isStarted ? 1 : 0;
        const length = pending.length < head + 4 ? Infinity : head + pending.readInt32BE(head);
        if (pending.length < length) return;
        const message = pending.subarray(0, length);
        pending = pending.subarray(length);
        const type = isStarted ? String.fromCharCode(message[0] ?? 0) : "";
        // Of Parse: name and text. Of Bind: portal and name.
        const [first = "", second = ""] = message.subarray(5).toString("latin1").split("\0");
        if (type === "P") prepared.set(first, second);
        if (type === "B") bound = prepared.get(second) ?? "";
        // A prepared statement is sent by Execute, others by a simple Query.
        const isStatement = type === "E" || type === "Q";
        isStarted = true;
        if (isStatement) count += 1;
        // A notice is sent when its time has come, which no caller waits for.
        if (type === "S" && !bound.startsWith("SELECT pg_notify")) asks += 1;
        const text = type === "E" ? bound : first;
        const isNamed = isStatement && typeof plan?.statement === "string" && text.startsWith(plan.statement);
        const isCut = isStatement && (isNamed || plan?.statement === count);
        if (!isCut || plan?.when === "after") backend.write(message);
        if (!isCut) continue;
        isDown = plan?.stay === true;
        const cut = plan?.all === true ? clients : [client];
        for (const one of cut) {
          mute.add(one);
          if (plan?.garbage !== undefined) one.write(plan.garbage);
          else if (plan?.silent !== true) one.destroy();
        }
        plan = null;
        return;
      }
    });
  });
  await new Promise<void>((resolve) => proxy.listen(join(directory, SOCKET), resolve));
  later(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    url: (of) => of.replace(/@[^/]+\//, `@${encodeURIComponent(directory)}/`),
    cut(next) {
      plan = next;
      [count, asks] = [0, 0];
      isDown = false;
    },
    sent: () => count,
    asked: () => asks,
  };
}
