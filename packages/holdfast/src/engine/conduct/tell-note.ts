import type { RunSession } from "./run-session.ts";

/** In the journal, and to whoever watches. */
export async function tellNote(writer: RunSession, text: string): Promise<void> {
  await writer.append({ kind: "note", body: { text } });
  writer.tell({ kind: "note", text });
}
