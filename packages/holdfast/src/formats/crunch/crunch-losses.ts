import { isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import type { ForeignCheckpoint, Loss } from "../format.ts";
import { nameLosses } from "../name-losses.ts";
import { field } from "../patch-document.ts";
import { graphLosses } from "./crunch-graph.ts";
import { isFileName } from "./crunch-id.ts";

/** Whatever of a checkpoint comes back otherwise when crunch's document of it is read again. */
export function crunchLosses(checkpoint: ForeignCheckpoint): readonly Loss[] {
  const { position } = checkpoint.planes;
  const carried = new Set(CARRIED);
  if (position.graph === null) carried.add("extensions.graph");
  return [
    ...identityLosses(checkpoint),
    ...positionLosses(checkpoint),
    ...issueLosses(checkpoint),
    ...(position.graph === null ? [] : graphLosses(position.graph)),
    ...fillings(checkpoint),
    ...nameLosses({ checkpoint, target: "a crunch checkpoint", carried }),
  ];
}

const EXTENSIONS = ["team", "graph", "outputs", "messages", "knowledge", "files", "recovery", "crunch"];

const CARRIED: ReadonlySet<string> = new Set([
  "position.workflow",
  "position.stage",
  "position.attempts",
  "position.graph",
  "inputs.issue",
  ...EXTENSIONS.filter((name) => name !== "graph").map((name) => `extensions.${name}`),
]);

function identityLosses({ id, work, workflow, planes }: ForeignCheckpoint): readonly Loss[] {
  const crunch = "crunch has one workflow, its own";
  const asked = planes.inputs.issue !== null && work.kind !== "issue";
  return [
    ...lose(id === null, "id", "it had none and was given one"),
    ...lose(id !== null && !isFileName(id), "id", "it cannot name a file and was given another"),
    ...lose(workflow !== "crunch", "workflow", crunch),
    ...lose(planes.position.workflow !== "crunch", "position.workflow", crunch),
    ...lose(work.kind === "task", "work", "a crunch checkpoint has no place for a task"),
    ...lose(work.kind === "none" && asked, "work", "a crunch checkpoint with an issue is of that issue"),
  ];
}

function positionLosses({ planes: { position } }: ForeignCheckpoint): readonly Loss[] {
  const { stage, attempts } = position;
  const others = Object.keys(attempts).some((name) => name !== stage);
  return [
    ...lose(others, "position.attempts", "crunch counts the attempts of the current phase only"),
    ...lose(stage === "validation", "position.stage", "crunch calls that phase e2e"),
    ...lose(stage.trim() === "", "position.stage", "a phase must have a name"),
  ];
}

function issueLosses({ planes, work, createdAt }: ForeignCheckpoint): readonly Loss[] {
  const { issue } = planes.inputs;
  if (issue === null) return [];
  const state = issue.labels.includes("state:done") ? "closed" : "open";
  const other = work.kind === "issue" && work.number !== issue.number;
  return [
    ...lose(other, "inputs.issue.number", "a crunch checkpoint has one issue, the run's own"),
    ...lose(issue.state !== state, "inputs.issue.state", "in crunch it follows from the labels"),
    ...lose(issue.updatedAt !== (createdAt ?? ""), "inputs.issue.updatedAt", "in crunch it is the checkpoint's time"),
  ];
}

/** Members of crunch's that are filled from elsewhere in our planes, and come back as extensions; and those that say nothing. */
function fillings({ planes }: ForeignCheckpoint): readonly Loss[] {
  const { extensions, files, conversation } = planes;
  const own = field(extensions, "crunch");
  const has = (name: string): boolean => isJsonObject(own) && field(own, name) !== undefined;
  const empty = EXTENSIONS.filter((name) => isEmpty(field(extensions, name)));
  return [
    ...lose(conversation?.session != null && !has("session_id"), "extensions.crunch", "it is the conversation's"),
    ...lose(files?.branch != null && !has("branch"), "extensions.crunch", "it is the branch of the files"),
    ...lose(
      (files?.artifacts.length ?? 0) > 0 && field(extensions, "files") === undefined,
      "extensions.files",
      "it lists the changed files by name",
    ),
    ...empty.map((name) => ({ path: `extensions.${name}`, why: "it says nothing" })),
  ];
}

function isEmpty(value: Json | undefined): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

function lose(is: boolean, path: string, why: string): readonly Loss[] {
  return is ? [{ path, why }] : [];
}
