import { ENTRY_KINDS, type EntryKind } from "@holdfast/core/journal";
import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";

const KINDS: ReadonlySet<string> = new Set(ENTRY_KINDS);
const TRIGGER_WORDS: ReadonlySet<string> = new Set(TRIGGERS);

export function isEntryKind(word: string): word is EntryKind {
  return KINDS.has(word) || word.startsWith("x.");
}

export function isTrigger(word: string): word is Trigger {
  return TRIGGER_WORDS.has(word);
}
