import { ENTRY_KINDS } from "../../core/journal/journal.ts";
import type { EntryKind } from "../../core/journal/journal.ts";
import { TRIGGERS } from "../../core/checkpoint/trigger.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";

const KINDS: ReadonlySet<string> = new Set(ENTRY_KINDS);
const TRIGGER_WORDS: ReadonlySet<string> = new Set(TRIGGERS);

export function isEntryKind(word: string): word is EntryKind {
  return KINDS.has(word) || word.startsWith("x.");
}

export function isTrigger(word: string): word is Trigger {
  return TRIGGER_WORDS.has(word);
}
