import type { RunWriter } from "./run-writer.ts";

/** In the journal, and to whoever watches. */
export async function tellNote(writer: RunWriter, text: string): Promise<void> {
  await writer.append({ kind: "note", body: { text } });
  writer.tell({ kind: "note", text });
}
