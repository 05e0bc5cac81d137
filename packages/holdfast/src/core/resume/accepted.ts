import type { Finding, FindingKind } from "./finding.ts";
import { FINDING_KINDS } from "./finding.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";
import { canonicalJson } from "../values/index.ts";

/**
 * What the world was like when somebody said "go on", by kind of finding: the differences that no plane can take over (where the
 * base stands, what the remote has, that an issue is gone). Part of the checkpoint, so the same one is not asked about twice.
 */
export type Accepted = Readonly<Partial<Record<FindingKind, Json>>>;

export function readAccepted(extensions: JsonObject): Accepted {
  const saved = extensions[EXTENSION];
  if (!isJsonObject(saved)) return {};
  return Object.fromEntries(FINDING_KINDS.flatMap((kind) => (Object.hasOwn(saved, kind) ? [[kind, saved[kind]]] : [])));
}

/** The extensions with one more; a later state of the same kind takes the place of the earlier one. */
export function withAccepted(
  extensions: JsonObject,
  one: { readonly kind: FindingKind; readonly actual: Json },
): JsonObject {
  const saved = extensions[EXTENSION];
  return { ...extensions, [EXTENSION]: { ...(isJsonObject(saved) ? saved : {}), [one.kind]: one.actual } };
}

export function wasAccepted(accepted: Accepted, finding: Finding): boolean {
  const before = accepted[finding.kind];
  return before !== undefined && canonicalJson(before) === canonicalJson(finding.actual);
}

/** Has the user accepted, on a resume, that the run's branch on the remote stands at `tip`? The run keeps its own commits then, and replaces these. */
export function isAcceptedTip(extensions: JsonObject, tip: string | null): boolean {
  const { branch_diverged: accepted } = readAccepted(extensions);
  return tip !== null && isJsonObject(accepted) && accepted["commit"] === tip;
}

const EXTENSION = "accepted";
