import { isJsonObject } from "../../core/json.ts";
import type { Format } from "../format.ts";
import { nameLosses } from "../name-losses.ts";
import type { Reasons } from "../name-losses.ts";
import { peekJson, readJson } from "../read-json.ts";
import { writeJson } from "../write-json.ts";
import { fitLoopDocument, requireLoopId } from "./document.ts";
import type { LoopDocument } from "./document.ts";
import { checkpointPlace, readPlace, secondPlace } from "./places.ts";
import type { Placed } from "./places.ts";
import { remarksOn, toCheckpoint } from "./to-checkpoint.ts";
import { toDocument } from "./to-document.ts";

/** One file a checkpoint, of one loop among several or of the legacy layout. Bytes are never compressed here: the suggested path says how they will be. */
export const loopJson: Format = {
  name: "loop-json",
  title: "Workflow checkpoint of a loop (schema 1.0 and 2.0)",
  capabilities: { many: false, directory: false, resumable: true },

  detect(file) {
    const document = peekJson(file);
    const signs = document !== null && Object.hasOwn(document, "workflow_id") && isJsonObject(document["state"]);
    if (signs) return { match: "yes", why: "It has a workflow_id and a state" };
    return readPlace(file.path) === null
      ? { match: "no", why: "It has no workflow_id with a state" }
      : { match: "maybe", why: "It lies where such files lie, but has not their content" };
  },

  decode(file) {
    const source = { format: "loop-json", file: file.path } as const;
    const { document, remarks } = readJson(file, "loop-json");
    const fitting = fitLoopDocument(document, source);
    if (readPlace(file.path)?.kind === "multi_loop") requireLoopId(fitting, source);
    return { checkpoints: [toCheckpoint(fitting)], remarks: [...remarks, ...remarksOn(fitting, file)] };
  },

  encode(checkpoint) {
    const source = { format: "loop-json", file: "the checkpoint to be written" } as const;
    const { original } = checkpoint;
    const before = original?.format === "loop-json" ? fitLoopDocument(original.document, source) : null;
    const document = fitLoopDocument(toDocument(checkpoint, before), source);
    const losses = nameLosses(checkpoint, toCheckpoint(document), REASONS);
    const placed = placedBy(document, checkpoint.createdAt ?? "");
    const elsewhere = secondPlace(placed);
    return {
      bytes: writeJson(document),
      path: checkpointPlace(placed),
      ...(elsewhere === null ? {} : { elsewhere }),
      losses,
    };
  },
};

function placedBy(document: LoopDocument, createdAt: string): Placed {
  return {
    loopId: document.loop_id ?? null,
    workflowId: document.workflow_id,
    iteration: document.state.iteration?.current ?? 0,
    createdAt,
    trigger: document.trigger ?? "automatic",
    compression: document.metadata?.compression ?? "gzip",
  };
}

const REASONS: Reasons = {
  id: "A checkpoint must have an id there; one was made",
  trigger: "The format has no word for this trigger",
  workflow: "The format knows four types of workflow only",
  work: "The format has ids of workflows and no issues or tasks",
  "position.workflow": "The format knows four types of workflow only",
  "position.attempts": "Of the counters only the number of failures is carried",
  "context.tokens": "The format does not count tokens",
  files: "Of the files only path, hash and status of the artifacts are carried",
  inputs: "The format has no place for issue, task, base and plan",
  "config.temperature": "A temperature is a number from 0 to 2",
  "config.seed": "A seed is a whole number",
  "extensions.loop-json": "What it says about the artifacts is older than the files of the checkpoint",
};
