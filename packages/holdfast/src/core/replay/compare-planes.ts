import type { FilesPlane, Planes } from "../checkpoint/checkpoint.ts";
import type { Json } from "../json.ts";
import { capture } from "../values/index.ts";
import { firstChange, withoutKeys } from "./first-change.ts";
import type { FirstChange } from "./first-change.ts";

/**
 * Is a checkpoint that a replay made the one that was recorded? Position, files, values, conversation, inputs, settings and what was imported. Not compared is
 * what tells one process or one folder from another: which steps were under way, the nonces of prompts, where the worktree is, the date of a snapshot, journal numbers.
 */
export function comparePlanes(recorded: Planes, played: Planes): FirstChange | null {
  return firstChange(comparable(recorded), comparable(played));
}

function comparable(planes: Planes): Json {
  const { context, conversation, inputs, config, extensions } = planes;
  const { visit, graph, fence: _fence, ...position } = planes.position;
  return capture({
    position,
    graph: graph === null ? null : withoutKeys(capture(graph), TIMES),
    visit: { number: visit.number, steps: visit.steps },
    values: context.values,
    tokens: context.tokens,
    files: filesOf(planes.files),
    conversation,
    inputs,
    config,
    extensions,
  });
}

/** Of a graph's nodes: when something happened to them. */
const TIMES: ReadonlySet<string> = new Set(["startedAt", "endedAt", "approvedAt"]);

function filesOf(files: FilesPlane | null): Json {
  if (files === null) return null;
  const { tree, head, branch, artifactCount } = files;
  const artifacts = files.artifacts.map(({ path, digest, status }) => ({ path, digest, status }));
  return { tree, head, branch, artifactCount, artifacts };
}
