import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { count, dictionary, jsonObject, nullable, object, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import { fitDocument, optional } from "../fit-document.ts";
import type { Decoded, ForeignCheckpoint, ForeignFile, Remark } from "../format.ts";
import { readJsonValue } from "../read-json.ts";
import { readTime } from "../read-time.ts";
import { invalidDocument } from "../refusals.ts";
import type { Source } from "../refusals.ts";

/** As `to_dict` gives it; `from_dict` wants the first two and makes up the rest. */
interface ContextDocument {
  readonly task_id: string;
  readonly version: number;
  readonly values?: JsonObject | undefined;
  readonly token_usage?: Readonly<Record<string, number>> | undefined;
  readonly metadata?: JsonObject | null | undefined;
  readonly created_at?: string | null | undefined;
}

const filled: Shape<string> = (value) =>
  typeof value === "string" && value !== "" ? null : { path: "", expected: "a text", actual: value };
const fromOne: Shape<number> = (value) =>
  count(value) === null && value !== 0 ? null : { path: "", expected: "a whole number from 1", actual: value };

const contextDocument = object<ContextDocument>({
  task_id: filled,
  version: fromOne,
  values: optional(jsonObject),
  token_usage: optional(dictionary(count)),
  metadata: optional(nullable(jsonObject)),
  created_at: optional(nullable(text)),
});

/** Oldest first. A list holds versions of one task, each once: two of the same would leave open which one counts. */
export function decodeContextStore(file: ForeignFile): Decoded {
  const source: Source = { format: "context-store", file: file.path };
  const { value, remarks: read } = readJsonValue(file, source.format);
  const remarks: Remark[] = [...read];
  const listed = isJsonArray(value);
  const documents: readonly Json[] = listed ? value : [value];
  if (documents.length === 0) throw invalidDocument(source, { path: "", why: "there is no checkpoint" });
  const decoded = documents.map((document, index) => {
    const path = listed ? `/${index}` : "";
    if (!isJsonObject(document)) throw invalidDocument(source, { path, why: "there is no object" });
    return decodeContextDocument({ document, source, path, remarks });
  });
  checkTogether(decoded, source);
  const ordered = decoded.toSorted((a, b) => a.version - b.version);
  if (ordered.some((one, place) => one !== decoded[place]))
    remarks.push({ path: "", text: "versions were put in order" });
  return { checkpoints: ordered.map((one) => one.checkpoint), remarks };
}

interface DecodedDocument {
  readonly task: string;
  readonly version: number;
  readonly checkpoint: ForeignCheckpoint;
}

export function decodeContextDocument(params: {
  readonly document: JsonObject;
  readonly source: Source;
  /** Of the document within its file. */
  readonly path: string;
  readonly remarks: Remark[];
}): DecodedDocument {
  const { document, path, remarks } = params;
  const at: Shape<ContextDocument> = (value) => {
    const misfit = contextDocument(value);
    return misfit === null ? null : { ...misfit, path: `${path}${misfit.path}` };
  };
  const given = fitDocument(at, document, params.source);
  const time = given.created_at == null ? null : readTime(given.created_at);
  if (given.created_at == null) remarks.push({ path: `${path}/created_at`, text: "is not there" });
  else if (time === null) remarks.push({ path: `${path}/created_at`, text: "is no time: kept, not understood" });
  else if (!time.zoned) remarks.push({ path: `${path}/created_at`, text: "has no zone: taken for UTC" });
  const planes = emptyPlanes();
  const { metadata } = given;
  const checkpoint: ForeignCheckpoint = {
    id: String(given.version),
    createdAt: time?.iso ?? null,
    // Orbiter saves when it is asked to, and only then.
    trigger: "manual",
    workflow: "none",
    work: { kind: "task", text: given.task_id },
    planes: {
      ...planes,
      context: { values: given.values ?? {}, tokens: given.token_usage ?? {} },
      extensions: metadata == null || Object.keys(metadata).length === 0 ? {} : { metadata },
    },
    original: { format: "context-store", document },
  };
  return { task: given.task_id, version: given.version, checkpoint };
}

function checkTogether(decoded: readonly DecodedDocument[], source: Source): void {
  const seen = new Set<number>();
  for (const [index, { task, version }] of decoded.entries()) {
    if (task !== decoded[0]?.task) {
      throw invalidDocument(source, { path: `/${index}/task_id`, why: "there is another task than in the first" });
    }
    if (seen.has(version)) {
      throw invalidDocument(source, { path: `/${index}/version`, why: `there is version ${version} once more` });
    }
    seen.add(version);
  }
}
