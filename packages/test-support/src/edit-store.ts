// Edits in the tables of a store, behind its back: what a damaged disk or a person with an SQL shell does.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** Overwrites the planes of these checkpoints with zeros; returns how many there were. */
export function damageCheckpoints(directory: string, sequences: readonly number[]): number {
  return edit(directory, (database) =>
    sequences.map((sequence) =>
      database
        .prepare(
          "UPDATE entries SET content = zeroblob(length(content)) WHERE (run, entry) IN (SELECT run, entry FROM checkpoints WHERE sequence = ?)",
        )
        .run(sequence),
    ),
  );
}

/** Replaces a text in the bodies of all entries but checkpoints that have it; returns how many have it. */
export function alterEntries(directory: string, from: string, to: string): number {
  return edit(directory, (database) => [
    database
      .prepare("UPDATE entries SET body = replace(body, ?, ?) WHERE kind <> 'checkpoint' AND instr(body, ?) > 0")
      .run(from, to, from),
  ]);
}

function edit(
  directory: string,
  work: (database: DatabaseSync) => readonly { readonly changes: number | bigint }[],
): number {
  const database = new DatabaseSync(join(directory, "store.db"));
  try {
    return work(database).reduce((sum, { changes }) => sum + Number(changes), 0);
  } finally {
    database.close();
  }
}
