// The least that a durable step on SQLite can cost: one prepared INSERT in autocommit, WAL, synchronous=FULL.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export function open(directory) {
  const insert = openRaw(join(directory, "raw.db"));
  return {
    durability: "SQLite WAL, synchronous=FULL, one INSERT a step",
    async run({ runs, steps }) {
      for (let at = 0; at < runs * steps; at += 1)
        insert(JSON.stringify({ run: "run", kind: "step.finished", step: `step-${at}`, result: at }));
    },
    close: () => undefined,
  };
}

export function openRaw(path) {
  const db = new DatabaseSync(path);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, body)");
  const insert = db.prepare("INSERT INTO t (body) VALUES (?)");
  return (body) => void insert.run(body);
}
