import { count, flag, list, nullable, object, oneOf, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import type {
  Injection,
  KnowledgeBook,
  KnowledgeEntry,
  KnowledgeSource,
  KnowledgeType,
  PendingCapture,
} from "./knowledge.ts";
import { within } from "./number-shape.ts";
import { PHASE_SHAPE } from "./team.ts";

const TYPE_SHAPE = oneOf<KnowledgeType>({
  decision: true,
  resolution: true,
  pattern: true,
  feedback: true,
  incident: true,
  remediation_pattern: true,
});

const SOURCE_SHAPE = object<KnowledgeSource>({
  type: oneOf<KnowledgeSource["type"]>({ issue: true, review: true, manual: true, accumulated: true }),
  ref: text,
  phase: nullable(PHASE_SHAPE),
});

export const KNOWLEDGE_ENTRY_SHAPE: Shape<KnowledgeEntry> = object<KnowledgeEntry>({
  id: text,
  type: TYPE_SHAPE,
  createdAt: text,
  updatedAt: text,
  decay: within(0, 1),
  tags: list(text),
  source: SOURCE_SHAPE,
  content: text,
  relationships: object<KnowledgeEntry["relationships"]>({
    issues: list(count),
    entries: list(text),
    supersedes: list(text),
    supersededBy: nullable(text),
  }),
});

export const CAPTURE_SHAPE: Shape<PendingCapture> = object<PendingCapture>({
  name: text,
  type: TYPE_SHAPE,
  content: text,
  tags: list(text),
  source: SOURCE_SHAPE,
  issue: count,
});

export const KNOWLEDGE_SHAPE: Shape<KnowledgeBook> = object<KnowledgeBook>({
  entries: list(KNOWLEDGE_ENTRY_SHAPE),
  injected: list(object<Injection>({ phase: PHASE_SHAPE, entries: list(text), at: text })),
  captured: list(object<KnowledgeBook["captured"][number]>({ name: text, entry: text, made: flag })),
  pending: list(CAPTURE_SHAPE),
});
