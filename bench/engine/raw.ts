import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createMarks } from "./marks.ts";

/** The floor: one autocommit INSERT a step, SQLite WAL, synchronous=FULL, nothing else. */
export function open(directory: string) {
  const marks = createMarks();
  const db = new DatabaseSync(join(directory, "raw.db"));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, body)");
  const insert = db.prepare("INSERT INTO t (body) VALUES (?)");
  return {
    durability: "SQLite WAL, synchronous=FULL, one commit a step",
    async run({ workflows, steps }: { workflows: number; steps: number }) {
      marks.reset(workflows);
      for (let at = 0; at < steps; at += 1) {
        for (let workflow = 0; workflow < workflows; workflow += 1) {
          marks.hit(workflow);
          insert.run(JSON.stringify({ run: `run-${workflow}`, kind: "step.finished", step: `step-${at}`, result: at }));
        }
      }
      return marks.all();
    },
    close: () => db.close(),
  };
}
