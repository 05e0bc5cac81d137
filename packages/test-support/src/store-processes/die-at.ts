// Loaded before a program. It counts the program's changes (files placed, git started, rows written) and kills it before the DIE_AT-th,
// without any cleanup. With DIE_WITH=sockets it also counts what is sent to a server, with DIE_WITH=promises also files that are written without waiting. With DIE_AT=0 the program lives, and the file COUNTER gets the count.

import child from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { DatabaseSync, StatementSync } from "node:sqlite";

const dieAt = Number(process.env["DIE_AT"]);
let made = 0;
for (const name of ["renameSync", "unlinkSync", "chmodSync", "mkdirSync", "rmdirSync", "fsyncSync", "rmSync"])
  countCalls(fs, name);
countCalls(child, "spawn");
countCalls(DatabaseSync.prototype, "exec");
countCalls(StatementSync.prototype, "run");
if (process.env["DIE_WITH"] === "sockets") countCalls(net.Socket.prototype, "write");
if (process.env["DIE_WITH"] === "promises")
  for (const name of ["rename", "writeFile", "mkdir", "link", "copyFile", "rm"]) countCalls(fs.promises, name);
syncBuiltinESMExports();
process.on("exit", () => fs.writeFileSync(process.env["COUNTER"] ?? "", String(made)));

function countCalls(owner: object, name: string): void {
  const real: unknown = Reflect.get(owner, name);
  if (typeof real !== "function") throw new TypeError(`${name} is no function`);
  Reflect.set(owner, name, function counted(this: unknown, ...args: readonly unknown[]): unknown {
    made += 1;
    if (made === dieAt) process.kill(process.pid, "SIGKILL");
    return Reflect.apply(real, this, args);
  });
}
