// The contract of a workflow that the application finds by its name: it builds the workflow from stored options, adopts
// imported runs, and knows its agents and limits. Everything else is in core's `Workflow`, which users can write too.

import type { Adapters, CoreAdapters } from "@holdfast/core/adapters";
import type { Checkpoint, InputsPlane, Planes } from "@holdfast/core/checkpoint";
import type { OptionsChange } from "@holdfast/core/control-run";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { ProgressListener } from "@holdfast/core/progress";
import type { Run, RunSummary, Work } from "@holdfast/core/run";
import type { Workflow } from "@holdfast/core/workflow";
import type { Encoded, ExternalCheckpoint, FormatName, Loss } from "@holdfast/formats/format";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Prompts } from "./prompts.ts";

export interface WorkflowPlugin {
  readonly name: string;
  /** That of its definition: workers execute runs of the same version. */
  readonly version: number;
  readonly prompts: Prompts;
  /** Builds the workflow of a run. Throws USAGE for options that it does not have. */
  create(options: JsonObject, adapters: Adapters): CreatedWorkflow;
  /** Plans how an imported run continues. Throws USAGE if its document lacks what the workflow needs. */
  adopt(request: AdoptionRequest): Adoption;
  /** Each role with its agent (`provider:model`), also for options that are not complete yet. `own`: the run's agent. */
  roles(options: JsonObject, own: string | null): readonly AgentRole[];
  /** The options of a run in which this agent has every role. */
  withAgent(options: JsonObject, agent: string): JsonObject;
  /** The limits that a resume can change, by the name of their flag. */
  readonly limits: Readonly<Record<string, ChangeLimit>>;
  /** Throws CONFIG_INVALID if a file of the repository that the workflow reads while it runs is not valid. */
  readonly check?: (adapters: Adapters) => Promise<void>;
  /**
   * Reads a document of its format as a run of the workflow; null: the workflow cannot continue it. `isNewest`: the
   * document is the newest of its run.
   */
  readonly recognize?: (checkpoint: ExternalCheckpoint, isNewest: boolean) => ContinuedDocument | null;
  /** The run of this store whose mirror wrote the document; null: another tool or another store wrote it. */
  readonly writtenBy?: (checkpoint: ExternalCheckpoint, store: string) => string | null;
}

/**
 * Files of another tool that runs are also written to. They are derived from the store alone: a killed writer catches up,
 * and two writers at once write the same files.
 */
export interface WorkflowLayout {
  /** Adds what a document of the workflow's runs says beyond the planes; returns another run's checkpoint unchanged. */
  describe(
    external: ExternalCheckpoint,
    run: Pick<Run, "id" | "createdAt" | "workflow" | "forkedFrom">,
    checkpoint: Checkpoint,
  ): ExternalCheckpoint;
  /** null: the layout of this run is one document for each checkpoint, without files beside them. */
  mirror(place: LayoutLocation, run: RunSummary): LayoutMirror | null;
  /** Keeps the files up to date while a run of the workflow executes; null: the settings disable it. */
  follow(place: LayoutLocation, run: string, listen: ProgressListener | undefined): CheckpointMirror | null;
  /** Writes exported documents into a directory as the other tool expects them. Absent: each becomes a plain file. */
  readonly exportTo?: (
    directory: string,
    documents: { readonly external: readonly ExternalCheckpoint[]; readonly encoded: readonly Encoded[] },
  ) => WriteResult;
  /** Corrects what the files say of runs whose process is gone: of all runs, or of the named one. Never fails. */
  readonly repair?: (place: LayoutLocation, run: string | null) => Promise<void>;
  /** Plans which files the layout's own retention removes. One plan for each run that has files. */
  readonly planCleanup?: (
    place: LayoutLocation,
    params: { readonly run?: string },
  ) => Promise<readonly LayoutCleanupPlan[]>;
  readonly applyCleanup?: (place: LayoutLocation, plans: readonly LayoutCleanupPlan[]) => Promise<void>;
  /**
   * Removes the files of a run that is being removed. Files of other tools and other runs stay. Called before the run's
   * checkpoints are dropped; after a kill, the same call removes the rest.
   */
  remove(place: LayoutLocation, run: RunSummary): Promise<void>;
}

export interface LayoutLocation {
  readonly adapters: CoreAdapters;
  /** The directory that contains the other tool's directory. */
  readonly root: string;
  readonly settings: LayoutSettings;
  /** How many runs may have a slot at once; null: no limit. */
  readonly limit: number | null;
  /** Stages of the layout's workflow in which only the end is left. */
  readonly completing: readonly string[];
  /** Whether this is where the run has its files. */
  readonly holds: (run: string) => Promise<boolean>;
}

export interface LayoutMirror {
  readonly to: FormatName;
  readonly root: string;
  /** Writes what is missing. */
  catchUp(): Promise<MirrorReport>;
}

export interface WriteResult {
  /** Absolute paths in the order of writing; empty if every file was already up to date. */
  readonly paths: readonly string[];
  /** Files removed by the other tool's own retention rules. */
  readonly removed: readonly string[];
  readonly losses: readonly Loss[];
}

export interface MirrorReport extends WriteResult {
  /** Sequence of the newest mirrored checkpoint; 0: none yet. */
  readonly sequence: number;
}

export interface EncodedCheckpoint {
  readonly external: ExternalCheckpoint;
  readonly encoded: Encoded;
}

export interface LayoutCleanupPlan {
  readonly run: string;
  /** The directory that contains the other tool's directory. */
  readonly root: string;
  /** Newest first. */
  readonly files: readonly {
    readonly path: string;
    readonly sequence: number;
    readonly action: "keep" | "drop";
    readonly why: string;
    readonly bytes: number;
  }[];
  /** All sequences without a file after the cleanup, including those dropped earlier. */
  readonly dropped: readonly number[];
}

export interface CheckpointMirror extends AsyncDisposable {
  /** Receives the run's progress events and forwards them. */
  readonly listen: ProgressListener;
}

/** Whether and where runs also write files for other tools, and how many of a loop are kept. */
export interface LayoutSettings {
  /**
   * `own`: in the directory of the store, unless the main worktree has files of that tool. `seed`: in the main worktree,
   * or the current directory without a repository.
   */
  readonly layout: "own" | "seed";
  /** Whether loops write their files at all. */
  readonly mirror: boolean;
  /** Directory that contains `.aiwg`; null: `layout` decides. */
  readonly directory: string | null;
  readonly keep: number;
  /** In days; null: files are never dropped by age. */
  readonly maxAge: number | null;
  readonly onSuccess: "keep_latest" | "by_rules";
  readonly onFailure: "keep_all_recent" | "by_rules";
}

/** The defaults of the published format. */
export const DEFAULT_LAYOUT: LayoutSettings = {
  layout: "own",
  mirror: true,
  directory: null,
  keep: 5,
  maxAge: 30,
  onSuccess: "keep_latest",
  onFailure: "keep_all_recent",
};

export interface CreatedWorkflow {
  readonly workflow: Workflow;
  /** The options in the form that the run stores. */
  readonly options: JsonObject;
}

export interface AgentRole {
  readonly role: string;
  readonly agent: string;
}

/** Returns null if this is the limit already. Throws USAGE for a value that allows nothing more. */
export type ChangeLimit = (params: {
  readonly run: Pick<RunSummary, "id" | "state">;
  readonly planes: Planes;
  readonly value: Json;
}) => OptionsChange | null;

export interface StageEntry {
  readonly stage: string;
  readonly iteration: number;
}

/** An imported document in the terms of the workflow that continues it. */
export interface ContinuedDocument {
  readonly work: Work;
  readonly planes: Planes;
}

export interface AdoptionRequest {
  readonly adapters: Adapters;
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  /** `provider:model`. */
  readonly agent: string | null;
  /** The workflow's own options. */
  readonly options: JsonObject;
  /** Limits typed with this resume, by the name of their flag: `{"target": "docs"}`. The plug-in has each of them. */
  readonly limits: JsonObject;
}

export interface Adoption {
  readonly workflow: Workflow;
  /** The options in the form that the run stores. */
  readonly options: JsonObject;
  readonly agent: string | null;
  /** Branch that a new worktree starts from; null: the remote's default. */
  readonly base: string | null;
  /** Branch that the document names, as it says it: the run continues on it. Absent or null: on a new branch. */
  readonly branch?: string | null;
  /** Where the run continues; absent: at the document's stage and iteration. */
  readonly enters?: StageEntry;
  /** Whether the limits reopen a run that has ended; absent: yes if `enters` is given. */
  readonly reopens?: boolean;
  /** Whether the document's graph lacks what its unfinished nodes are: the stage plans a new one. Absent: it does not. */
  readonly dropsGraph?: boolean;
  /** Why the document says that it cannot be resumed; absent: it does not say so. */
  readonly refusal?: string | null;
  /** Throws if the run cannot continue here. Called before a worktree is created. Absent: it can. */
  check?(): Promise<void>;
  /** Returns the workflow's state and the run's inputs, once the worktree exists. */
  prepare(root: string): Promise<{ readonly values: JsonObject; readonly inputs: Partial<InputsPlane> }>;
}

/** Roles whose agent is named. */
export function namedRoles(roles: Readonly<Record<string, Json | undefined>>): readonly AgentRole[] {
  return Object.entries(roles).flatMap(([role, agent]) => (typeof agent === "string" ? [{ role, agent }] : []));
}

/** The issue of an imported run. `member`: where the document names it. */
export function importedIssueNumber({ id, work }: RunSummary, workflow: string, member: string): number {
  if (work.kind === "issue") return work.number;
  throw usageError(
    `Imported run ${id} names no issue, and the ${workflow} workflow works on an issue`,
    `Add the number of the issue (${member}) to its document and import it again.`,
  );
}

export function importWithoutAgent({ id }: RunSummary): HoldfastError {
  return usageError(
    `Imported run ${id} names no agent that could continue the work`,
    "Name one with --agent (command:./my-agent), or as `agent:` in holdfast.config.yaml.",
  );
}
