import type { JsonObject } from "../../core/json.ts";
import { count, flag, list, object, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import { fitDocument } from "../fit-document.ts";
import type { ForeignFile } from "../format.ts";
import { readCrunch } from "./read-crunch.ts";

type Maybe<T> = T | null | undefined;

/** The list that crunch keeps beside its checkpoints. Derived from them in all but one thing: it alone tells the trigger. */
export interface CrunchIndex {
  readonly issue_number?: Maybe<number>;
  readonly checkpoints: readonly CrunchIndexEntry[];
  readonly latest?: Maybe<string>;
  readonly total_checkpoints?: Maybe<number>;
}

export interface CrunchIndexEntry {
  readonly checkpoint_id: string;
  readonly created_at?: Maybe<string>;
  readonly trigger?: Maybe<string>;
  readonly phase?: Maybe<string>;
  readonly can_resume?: Maybe<boolean>;
}

/** FORMAT_INVALID or FORMAT_DAMAGED; the document comes along whole, for the fields that we do not know. */
export function decodeIndex(file: ForeignFile): { readonly index: CrunchIndex; readonly document: JsonObject } {
  const { document, source } = readCrunch(file);
  return { index: fitDocument(crunchIndex, document, source), document };
}

function maybe<T>(shape: Shape<T>): Shape<Maybe<T>> {
  return (value) => (value === undefined || value === null ? null : shape(value));
}

const crunchIndex = object<CrunchIndex>({
  issue_number: maybe(count),
  checkpoints: list(
    object<CrunchIndexEntry>({
      checkpoint_id: text,
      created_at: maybe(text),
      trigger: maybe(text),
      phase: maybe(text),
      can_resume: maybe(flag),
    }),
  ),
  latest: maybe(text),
  total_checkpoints: maybe(count),
});
