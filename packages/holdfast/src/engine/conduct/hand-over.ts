import type { Fence } from "../../core/agent/fence.ts";
import type { ConversationPlane, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import { saidIn } from "../../core/agent/said-in.ts";

/**
 * The prompt of a session that takes over from one that cannot be gone on with: what is known of that one, then the task as it was given. Bounded,
 * whatever the other said. Without a record and without a changed file there is nothing to hand over: it died before it did anything.
 */
export function handOver(params: {
  readonly prompt: string;
  readonly conversation: ConversationPlane | null;
  /** As they are now. */
  readonly files: Pick<FilesPlane, "artifacts" | "artifactCount"> | null;
  readonly diffStat: string | null;
  readonly fence: Fence;
}): string {
  const { fence } = params;
  const said = saidIn(params.conversation?.transcript?.text ?? "", { maxCharacters: MAX_SAID });
  const files = filesText(params);
  if (said.length === 0 && files === "") return params.prompt;
  const record = said.map(({ who, text }) => `[${who}] ${text}`).join("\n");
  const text = [
    "# Taking over",
    "",
    "Another session worked on the task below before you, and cannot be gone on with. Its files are in the worktree as it left them. Look at them",
    "first, keep what is good, and do not do again what is done. Its last tool call may have been cut off in the middle: a file may be half-written,",
    "and a command may have run without its answer being seen.",
    "",
    ...(files === "" ? [] : ["## Files that differ from the last commit", "", fence.data("changed files", files), ""]),
    ...(record === "" ? [] : ["## The end of what it said and did", "", fence.data("the session before", record), ""]),
    "# The task",
    "",
    params.prompt,
  ].join("\n");
  return fence.prompt(text);
}

const MAX_SAID = 12_000;
const MAX_FILES = 100;
const MAX_STAT = 8_000;

function filesText(params: Pick<Parameters<typeof handOver>[0], "files" | "diffStat">): string {
  const { files, diffStat } = params;
  if (files === null) return "";
  const changed = files.artifacts.filter(({ status }) => status !== "unchanged");
  if (changed.length === 0) return "";
  const stat = diffStat?.trimEnd() ?? "";
  if (stat !== "" && stat.length <= MAX_STAT) return stat;
  const more = Math.max(files.artifactCount, changed.length) - Math.min(changed.length, MAX_FILES);
  return [
    ...changed.slice(0, MAX_FILES).map(({ path, status }) => `${status} ${path.slice(0, 200)}`),
    ...(more > 0 ? [`and ${more} more`] : []),
  ].join("\n");
}
