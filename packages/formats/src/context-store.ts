// The context-store format: context checkpoints of orbiter (later exo) as their `to_dict` writes them.

import { emptyPlanes } from "@holdfast/core/checkpoint";
import {
  type Json,
  type JsonObject,
  type Shape,
  count,
  dictionary,
  isJsonArray,
  isJsonObject,
  jsonObject,
  object,
} from "@holdfast/core/json";
import {
  type DocumentSource,
  type LossReasons,
  checkDocument,
  field,
  invalidDocument,
  listLosses,
  maybe,
  optional,
  parseIsoTime,
  patchDocument,
  withoutProtoKeys,
} from "./document.ts";
import type { Decoded, Detection, Encoded, ExternalCheckpoint, ExternalFile, Format, Loss, Remark } from "./format.ts";
import { readJsonValue, writeJson } from "./strict-json.ts";

const taskId: Shape<string> = (value) =>
  typeof value === "string" && value !== "" && value.isWellFormed()
    ? null
    : { path: "", expected: "a text that is not empty", actual: value };
const version: Shape<number> = (value) =>
  count(value) === null && value !== 0 ? null : { path: "", expected: "a whole number from 1", actual: value };

/** Keeps the text unchanged, including microseconds. */
const isoTime: Shape<string> = (value) =>
  typeof value === "string" && parseIsoTime(value) !== null
    ? null
    : { path: "", expected: "an ISO 8601 time", actual: value };

/** The fields of a checkpoint, for documents and for the library. */
export const contextFields = { taskId, version, time: isoTime };

/** The output of `to_dict`. `from_dict` requires the first two members and has defaults for the rest. */
export const contextDocument = object({
  task_id: taskId,
  version,
  values: optional(jsonObject),
  token_usage: optional(dictionary(count)),
  metadata: maybe(jsonObject),
  created_at: maybe(isoTime),
});

/**
 * Decodes versions of one task, oldest first. Rejects a duplicate version, because it would be unclear which one
 * counts.
 */
function decodeContextStore(file: ExternalFile): Decoded {
  const source: DocumentSource = { format: "context-store", file: file.path };
  const { value, remarks: read } = readJsonValue(file, source.format);
  const remarks: Remark[] = [...read];
  const listed = isJsonArray(value);
  const documents: readonly Json[] = listed ? value : [value];
  if (documents.length === 0) throw invalidDocument(source, { path: "", why: "the list is empty" });
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
  readonly checkpoint: ExternalCheckpoint;
}

function decodeContextDocument(params: {
  readonly document: JsonObject;
  readonly source: DocumentSource;
  /** JSON pointer of the document within its file. */
  readonly path: string;
  readonly remarks: Remark[];
}): DecodedDocument {
  const { document, path, remarks } = params;
  const at: typeof contextDocument = (value) => {
    const misfit = contextDocument(value);
    return misfit === null ? null : { ...misfit, path: `${path}${misfit.path}` };
  };
  const given = checkDocument(at, document, params.source);
  const time = given.created_at == null ? null : parseIsoTime(given.created_at);
  if (given.created_at == null) remarks.push({ path: `${path}/created_at`, text: "is not there" });
  else if (time?.zoned === false) remarks.push({ path: `${path}/created_at`, text: "has no zone: taken for UTC" });
  const planes = emptyPlanes();
  const { metadata } = given;
  const checkpoint: ExternalCheckpoint = {
    id: String(given.version),
    createdAt: time?.iso ?? null,
    // Orbiter saves only on request.
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

function checkTogether(decoded: readonly DecodedDocument[], source: DocumentSource): void {
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

function encodeContextCheckpoint(checkpoint: ExternalCheckpoint): Encoded {
  const document = documentOf(checkpoint);
  return { bytes: writeJson(document), path: `${fileName(document)}.json`, losses: lossesOf(checkpoint, document) };
}

/** One list of versions, as the decoder reads it. */
function joinVersions(documents: readonly Encoded[]): Encoded {
  // Each document was written by `writeJson` from an object.
  const versions = documents.map(({ bytes }): JsonObject => JSON.parse(new TextDecoder().decode(bytes)));
  const path = `${taskName(versions[0] ?? {})}.json`;
  return { bytes: writeJson(versions), path, losses: documents.flatMap(({ losses }) => losses) };
}

function documentOf(given: ExternalCheckpoint): JsonObject {
  const checkpoint = withoutProtoKeys(given);
  const after = viewOf(checkpoint);
  if (checkpoint.original?.format !== "context-store") return after;
  const { document: original } = checkpoint.original;
  return patchDocument({ original, before: viewOf(decodeAgain(original)), after });
}

/** Members in the order of `to_dict`. */
function viewOf({ id, createdAt, work, planes }: ExternalCheckpoint): JsonObject {
  const metadata = field(planes.extensions, "metadata");
  return {
    task_id: taskOf(work, planes),
    version: versionOf(id) ?? 1,
    values: planes.context.values,
    token_usage: planes.context.tokens,
    metadata: isJsonObject(metadata) ? metadata : {},
    ...(createdAt === null ? {} : { created_at: createdAt }),
  };
}

function taskOf(work: ExternalCheckpoint["work"], planes: ExternalCheckpoint["planes"]): string {
  switch (work.kind) {
    case "task":
      return work.text === "" ? "task" : work.text;
    case "issue":
      return `issue-${work.number}`;
    case "none":
      return planes.position.workflow === "none" ? "task" : planes.position.workflow;
  }
}

function versionOf(id: string | null): number | null {
  return id !== null && /^[1-9]\d{0,14}$/.test(id) ? Number(id) : null;
}

function fileName(document: JsonObject): string {
  return `${taskName(document)}-${String(document["version"] ?? 1)}`;
}

function taskName(document: JsonObject): string {
  const task = String(document["task_id"] ?? "task")
    .replaceAll(/[^\w.-]+/g, "-")
    .replace(/^[.-]+/, "");
  return task.slice(0, 80) || "task";
}

const REASONS: LossReasons = {
  id: "A context checkpoint has a number from 1",
  work: "A context checkpoint is of a task that has a name",
  "extensions.metadata": "Metadata is an object with at least one field",
};

function lossesOf(given: ExternalCheckpoint, document: JsonObject): readonly Loss[] {
  return listLosses(given, decodeAgain(document), REASONS);
}

/** Decodes a document that is not, or no longer, a file. */
function decodeAgain(document: JsonObject): ExternalCheckpoint {
  const source = { format: "context-store", file: "a checkpoint" } as const;
  return decodeContextDocument({ document, source, path: "", remarks: [] }).checkpoint;
}

/** Context checkpoints of orbiter (later exo): one `to_dict` document, or a list of versions. */
export const contextStore: Format = {
  name: "context-store",
  title: "orbiter context checkpoint (to_dict JSON)",
  capabilities: { many: true, directory: false, resumable: false },
  detect: detectContextStore,
  decode: decodeContextStore,
  encode: encodeContextCheckpoint,
  join: joinVersions,
};

/** Checks the text first, so that most files are rejected without parsing. */
function detectContextStore(file: ExternalFile): Detection {
  const no = { match: "no", why: "it has no task_id with a version, values or token_usage" } as const;
  const start = LOSSY.decode(file.bytes.subarray(0, LOOKED_AT)).trimStart();
  if (!/^\uFEFF?(?:\[\s*)?\{/.test(start)) return no;
  const whole = file.bytes.length <= LOOKED_AT;
  const members = whole ? membersOf(start) : null;
  const has = (name: string): boolean =>
    members === null ? new RegExp(`"${name}"\\s*:`).test(start) : members.includes(name);
  if (!has("task_id") || !has("version")) return no;
  const own = ["values", "token_usage"].some(has) || (members !== null && members.every((name) => MEMBERS.has(name)));
  return own ? { match: "yes", why: "it has a task_id, a version and values or token_usage" } : no;
}

const LOOKED_AT = 65_536;
const LOSSY = new TextDecoder();
const MEMBERS: ReadonlySet<string> = new Set(["task_id", "version", "values", "token_usage", "metadata", "created_at"]);

/** Member names of the document or of the first one in a list; null if the text is not JSON. */
function membersOf(text: string): readonly string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    const first: unknown = Array.isArray(value) ? value[0] : value;
    return typeof first === "object" && first !== null ? Object.keys(first) : [];
  } catch {
    return null;
  }
}
