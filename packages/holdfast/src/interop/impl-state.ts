// The checkpoint of an issue-to-pull-request tool (impl-checkpoint.json) as a value that programs load, change and save.

import { dirname, resolve } from "node:path";
import { type Json, type JsonObject, deepFreeze, isJsonObject } from "@holdfast/core/json";
import { checkArgument } from "@holdfast/core/options";
import { canonicalJson } from "@holdfast/core/values";
import {
  type ExternalEntry,
  type ImplDocument,
  type ImplDocumentState,
  encodeTime,
  parseImplDocument,
} from "@holdfast/formats/impl-document";
import { MAX_DOCUMENT_BYTES, readJson, writeJson } from "@holdfast/formats/strict-json";
import { HoldfastError, usageError, wrapSystemErrors } from "@holdfast/platform/error";
import {
  makeDurableDirectory,
  readRegularFile,
  removeStaleTemporaryFiles,
  writeDurable,
} from "@holdfast/platform/files";

/** The stages that a document can name. `simp` needs version 2, which Holdfast then writes. */
export type ImplStage = ImplDocumentState["current_stage"];
/** An entry of the history: `stage`, `iteration`, `timestamp`, `result`, `score`, and fields that other tools added. */
export type ImplHistory = Partial<ExternalEntry>;

export interface ImplStateParams {
  readonly issueNo: number;
  readonly worktree: string;
  /** Default: impl. */
  readonly currentStage?: ImplStage;
  /** Default: 1. */
  readonly iteration?: number;
  readonly planFile?: string | null;
  readonly lastFeedback?: string;
  /** 0 to 100. */
  readonly lastScore?: number;
  readonly history?: readonly ImplHistory[];
  readonly prNumber?: string | null;
  readonly prUrl?: string | null;
}

/** The members of a document's state, by the names of the class. */
const MEMBERS: Readonly<Record<keyof ImplStateParams, keyof ImplDocumentState>> = {
  issueNo: "issue_no",
  worktree: "worktree",
  currentStage: "current_stage",
  iteration: "iteration",
  planFile: "plan_file",
  lastFeedback: "last_feedback",
  lastScore: "last_score",
  history: "history",
  prNumber: "pr_number",
  prUrl: "pr_url",
};

/**
 * The state in an `impl-checkpoint.json`, frozen. `with` returns a changed copy. Fields that Holdfast does not know, and the
 * version, survive a load and a save.
 */
export class ImplState {
  readonly #document: ImplDocument;
  readonly issueNo: number;
  readonly worktree: string;
  readonly currentStage: ImplStage;
  readonly iteration: number;
  readonly planFile: string | null;
  readonly lastFeedback: string;
  readonly lastScore: number;
  readonly history: readonly ImplHistory[];
  readonly prNumber: string | null;
  readonly prUrl: string | null;

  /**
   * Takes the fields, or a whole document.
   * @throws {HoldfastError} `FORMAT_INVALID` with the path of a wrong field; `FORMAT_TOO_NEW` for a version above 2;
   *   `NOT_JSON` for what JSON cannot represent.
   */
  constructor(given: ImplStateParams | { readonly version: number; readonly state: object }, file = "the given state") {
    checkArgument("ImplState", "its fields", given, "object");
    const document =
      "state" in given ? given : newDocument({ version: 1 }, { currentStage: "impl", iteration: 1, ...given });
    // Written and read again: later changes of the given object change nothing here.
    canonicalJson(document);
    const copy: Json = JSON.parse(JSON.stringify(document));
    this.#document = deepFreeze(parseImplDocument(isJsonObject(copy) ? copy : {}, { format: "impl-json", file }));
    const { state } = this.#document;
    this.issueNo = state.issue_no;
    this.worktree = state.worktree;
    this.currentStage = state.current_stage;
    this.iteration = state.iteration;
    this.planFile = state.plan_file ?? null;
    this.lastFeedback = state.last_feedback ?? "";
    this.lastScore = state.last_score ?? 0;
    this.history = state.history ?? [];
    this.prNumber = state.pr_number === undefined || state.pr_number === null ? null : String(state.pr_number);
    this.prUrl = state.pr_url ?? null;
  }

  /**
   * @throws {HoldfastError} `USAGE` if there is no such file; `FORMAT_DAMAGED` if it is not JSON; `FORMAT_INVALID` with
   *   the path of a wrong field; `FORMAT_TOO_NEW` for a version above 2; `IO_FAILED` if it cannot be read.
   */
  static async load(path: string): Promise<ImplState> {
    checkArgument("ImplState.load", "the path", path, "path");
    const file = await wrapSystemErrors("/", async () => readRegularFile({ path, maxBytes: MAX_DOCUMENT_BYTES }));
    if (file.kind === "absent") throw usageError(`There is no checkpoint file ${path}`, "Check the path.");
    if (file.kind === "refused")
      throw new HoldfastError({
        code: "IO_FAILED",
        message: file.why,
        hint: "Name a checkpoint file.",
        data: { path },
      });
    const { document } = readJson({ path, bytes: file.bytes, compression: "none" }, "impl-json");
    return new ImplState(parseImplDocument(document, { format: "impl-json", file: path }), path);
  }

  /** A copy with these fields changed, and the present time. Throws as the constructor. */
  with(changes: Partial<ImplStateParams>): ImplState {
    checkArgument("ImplState.with", "its changes", changes, "object");
    return new ImplState(newDocument(this.#document, changes));
  }

  /**
   * Writes the file atomically and durably; missing parent directories are created. A kill leaves the old file or the
   * new one.
   * @throws {HoldfastError} `DISK_FULL` or `IO_FAILED`. The old file then remains.
   */
  async save(path: string): Promise<void> {
    checkArgument("ImplState.save", "the path", path, "path");
    const target = resolve(path);
    const directory = dirname(target);
    await wrapSystemErrors("/", async () => {
      makeDurableDirectory(directory, 0o755);
      writeDurable({ path: target, data: writeJson(this.#document), mode: "replace" });
      removeStaleTemporaryFiles(directory, { olderThanMs: STALE_MS });
    });
  }

  /** The document that `save` writes. */
  toJSON(): JsonObject {
    return structuredClone(this.#document);
  }
}

/** A temporary file of a killed save. Another process may still be writing a younger one. */
const STALE_MS = 60_000;

export function loadCheckpoint(path: string): Promise<ImplState> {
  return ImplState.load(path);
}

export async function saveCheckpoint(state: ImplState, path: string): Promise<void> {
  checkArgument("saveCheckpoint", "its state", state, "object");
  checkArgument("saveCheckpoint", "the save of its state", Reflect.get(state, "save"), "function");
  await state.save(path);
}

function newDocument(
  from: { readonly version: 1 | 2; readonly state?: ImplDocumentState },
  changes: Partial<ImplStateParams>,
): { readonly version: 1 | 2; readonly timestamp: string; readonly state: object } {
  const changed = Object.entries(MEMBERS).flatMap(([name, member]) => {
    const value: unknown = Object.entries(changes).find(([key]) => key === name)?.[1];
    return value === undefined ? [] : [[member, value] as const];
  });
  const version = from.version === 2 || changes.currentStage === "simp" ? 2 : 1;
  const timestamp = encodeTime(new Date().toISOString());
  return { ...from, version, timestamp, state: { ...from.state, ...Object.fromEntries(changed) } };
}
