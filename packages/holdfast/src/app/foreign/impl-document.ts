import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import { isJsonObject } from "../../core/json.ts";
import type { ImplDocumentParams } from "../../engine/work-parts.ts";
import { implJson } from "../../formats/impl-json/impl-json.ts";
import { IMPL_EXTENSION } from "../../formats/impl-json/to-checkpoint.ts";
import { asForeign } from "./as-foreign.ts";

/** What the impl workflow puts beside its work for older tools: what `holdfast export --to impl-json` would write at that moment. */
export function implDocument({ run, planes, worktree, simplifies, at }: ImplDocumentParams): string {
  const { position, inputs, values } = planes;
  const base = emptyPlanes();
  const kept = planes.extensions[IMPL_EXTENSION];
  const own = { version: simplifies ? 2 : 1, ...(isJsonObject(kept) ? kept : {}), worktree };
  const extensions = { ...planes.extensions, [IMPL_EXTENSION]: own };
  const whole = { ...base, position, inputs, context: { ...base.context, values }, extensions };
  const { foreign } = asForeign(run, { trigger: "stage", sequence: 0, createdAt: at, planes: whole }, "impl-json");
  return new TextDecoder().decode(implJson.encode(foreign).bytes);
}
