import type { Json, JsonObject } from "../json.ts";
import { isJsonArray, isJsonObject } from "../json.ts";
import { KNOWLEDGE_TYPES } from "./knowledge.ts";
import type { KnowledgeEntry, KnowledgeSource } from "./knowledge.ts";
import { parsePhase } from "./phase.ts";

/** Reads what `knowledgeDocument` or crunch itself wrote; null for what is no entry. Somebody may have edited it by hand. */
export function parseKnowledge(document: Json): KnowledgeEntry | null {
  if (!isJsonObject(document)) return null;
  const { id, content, created_at: createdAt } = document;
  const type = KNOWLEDGE_TYPES.find((one) => one === document["type"]);
  if (typeof id !== "string" || !KNOWLEDGE_ID.test(id) || type === undefined || typeof createdAt !== "string")
    return null;
  const relationships = objectAt(document, "relationships");
  const decay = document["decay_score"];
  const updatedAt = document["updated_at"];
  const supersededBy = relationships["superseded_by"];
  return {
    id,
    type,
    createdAt,
    updatedAt: typeof updatedAt === "string" ? updatedAt : createdAt,
    decay: typeof decay === "number" && decay >= 0 && decay <= 1 ? decay : 1,
    tags: texts(document["tags"]),
    source: sourceOf(objectAt(document, "source")),
    // Crunch has a structure of its own for each type; what it says is kept whole.
    content: typeof content === "string" ? content : JSON.stringify(content ?? null),
    relationships: {
      issues: numbers(relationships["related_issues"]),
      entries: texts(relationships["related_entries"]),
      supersedes: texts(relationships["supersedes"]),
      supersededBy: typeof supersededBy === "string" ? supersededBy : null,
    },
  };
}

/** It becomes a file's name: letters, digits, underscores and hyphens only. */
const KNOWLEDGE_ID = /^KE-[A-Za-z0-9_-]{1,120}$/;

const SOURCES: readonly KnowledgeSource["type"][] = ["issue", "review", "manual", "accumulated"];

function sourceOf(source: JsonObject): KnowledgeSource {
  const { ref, phase } = source;
  return {
    type: SOURCES.find((one) => one === source["type"]) ?? "manual",
    ref: typeof ref === "string" || typeof ref === "number" ? String(ref) : "",
    phase: typeof phase === "string" ? parsePhase(phase) : null,
  };
}

function objectAt(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

function texts(value: Json | undefined): readonly string[] {
  return isJsonArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function numbers(value: Json | undefined): readonly number[] {
  if (!isJsonArray(value)) return [];
  return value
    .map((item) => (typeof item === "string" || typeof item === "number" ? Number(item) : Number.NaN))
    .filter((item) => Number.isSafeInteger(item) && item >= 0);
}
