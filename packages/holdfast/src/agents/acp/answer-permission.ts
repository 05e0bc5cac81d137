import { asRecord, asRecords, asText, type JsonRecord } from "../../core/record.ts";

/**
 * What an agent is told that asks whether it may. Nobody sits here, so the run's own rule decides: with yolo all is allowed; without, what only
 * edits files of the worktree, as with every other agent. "Once" goes before "always": an agent may write the latter into its user's settings.
 */
export function answerPermission(params: {
  readonly request: JsonRecord;
  readonly yolo: boolean;
  readonly isInside: (path: string) => boolean;
}): PermissionAnswer {
  const { request, yolo, isInside } = params;
  const tool = asRecord(request["toolCall"]);
  const options = asRecords(request["options"]);
  const allowed = yolo || isEdit(tool, isInside);
  const wanted = allowed ? ["allow_once", "allow_always"] : ["reject_once", "reject_always"];
  const option = wanted.flatMap((kind) => options.filter((offered) => offered["kind"] === kind))[0];
  const id = asText(option?.["optionId"]);
  return {
    outcome: id === "" ? { outcome: "cancelled" } : { outcome: "selected", optionId: id },
    denied: allowed && id !== "" ? null : nameOf(tool),
  };
}

export interface PermissionAnswer {
  readonly outcome: { readonly outcome: "cancelled" } | { readonly outcome: "selected"; readonly optionId: string };
  /** What it may not do; null: it may. */
  readonly denied: string | null;
}

/** It says itself what it is about to touch; where it does not, it is no mere edit. */
function isEdit(tool: JsonRecord, isInside: (path: string) => boolean): boolean {
  const paths = asRecords(tool["locations"]).map(({ path }) => asText(path));
  return tool["kind"] === "edit" && paths.length > 0 && paths.every(isInside);
}

function nameOf(tool: JsonRecord): string {
  const title = asText(tool["title"]).replaceAll(/\s+/g, " ").trim();
  const name = title === "" ? asText(tool["kind"]) || "a tool" : title;
  return name.length > 120 ? `${name.slice(0, 119)}…` : name;
}
