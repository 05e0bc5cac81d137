import type { Work } from "../../core/run/run.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { sha256 } from "../../system/hash.ts";

/** An issue for a task in words, the same one for the same text; null without a forge to file it at. */
export async function fileTask(parts: WorkParts, text: string, labels: readonly string[]): Promise<Work | null> {
  if (parts.forge === null) return null;
  const key = `task/${sha256(text).slice(0, 32)}`;
  // Somebody who was killed while filing the same one may have left a request behind.
  const mark = `${parts.store.id}/${key}`;
  const { ended } = await parts.commands.endMarked(mark);
  const forge = parts.forge.marked(mark);
  if (ended > 0) await parts.wait(forge.lateMs, new AbortController().signal);
  const known = await forge.findIssue(key);
  const [title = text] = text.trim().split("\n");
  const issue = known ?? (await forge.createIssue({ title: title.slice(0, 120), body: text, labels, key }));
  return { kind: "issue", number: issue.number };
}
