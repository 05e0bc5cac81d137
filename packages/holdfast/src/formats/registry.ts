import { contextStore } from "./context-store/context-store.ts";
import { crunchYaml } from "./crunch/crunch-yaml.ts";
import type { Detection, ForeignFile, Format } from "./format.ts";
import { implJson } from "./impl-json/impl-json.ts";
import { loopJson } from "./loop-json/loop-json.ts";

export const FORMATS: readonly Format[] = [implJson, crunchYaml, contextStore, loopJson];

export type DetectedFormat =
  | { readonly kind: "one"; readonly format: Format; readonly sure: boolean; readonly why: string }
  | { readonly kind: "several"; readonly claims: readonly Claim[] }
  | { readonly kind: "none"; readonly claims: readonly Claim[] };

/** What one format said of a file. */
export interface Claim {
  readonly format: Format;
  readonly detection: Detection;
}

/** Which format a file is in. Whoever is sure outweighs all who only think it may be theirs. */
export function detectFormat(file: ForeignFile, formats: readonly Format[] = FORMATS): DetectedFormat {
  const claims = formats.map((format) => ({ format, detection: format.detect(file) }));
  const sure = claims.filter((claim) => claim.detection.match === "yes");
  const found = sure.length > 0 ? sure : claims.filter((claim) => claim.detection.match === "maybe");
  const [only] = found;
  if (only === undefined) return { kind: "none", claims };
  if (found.length > 1) return { kind: "several", claims: found };
  return { kind: "one", format: only.format, sure: sure.length > 0, why: only.detection.why };
}
