// The registry of formats, and the detection of a file's format.

import { HoldfastError } from "@holdfast/platform/error";
import { contextStore } from "./context-store.ts";
import { crunchYaml } from "./crunch-yaml.ts";
import type { Detection, ExternalFile, Format, FormatName } from "./format.ts";
import { implJson } from "./impl-json.ts";
import { loopJson } from "./loop-json.ts";

export const FORMATS: readonly Format[] = [implJson, crunchYaml, contextStore, loopJson];

type DetectedFormat =
  | { readonly kind: "one"; readonly format: Format; readonly sure: boolean; readonly why: string }
  | { readonly kind: "several"; readonly claims: readonly Claim[] }
  | { readonly kind: "none"; readonly claims: readonly Claim[] };

/** What one format says about a file. */
interface Claim {
  readonly format: Format;
  readonly detection: Detection;
}

/** Detects the format of a file. Formats that are certain take precedence over those that are not. */
export function detectFormat(file: ExternalFile, formats: readonly Format[] = FORMATS): DetectedFormat {
  const claims = formats.map((format) => ({ format, detection: format.detect(file) }));
  const sure = claims.filter((claim) => claim.detection.match === "yes");
  const found = sure.length > 0 ? sure : claims.filter((claim) => claim.detection.match === "maybe");
  const [only] = found;
  if (only === undefined) return { kind: "none", claims };
  if (found.length > 1) return { kind: "several", claims: found };
  return { kind: "one", format: only.format, sure: sure.length > 0, why: only.detection.why };
}

export function findFormat(name: FormatName): Format {
  const format = FORMATS.find((known) => known.name === name);
  if (format !== undefined) return format;
  throw new HoldfastError({
    code: "UNSUPPORTED",
    message: `This Holdfast cannot read or write ${name}`,
    hint: `It knows ${FORMATS.map((known) => known.name).join(", ")}.`,
  });
}

/**
 * The named format, or the only one that claims the file. Throws FORMAT_UNKNOWN (data: the claims) if none or several
 * do.
 */
export function chooseFormat(file: ExternalFile, named: FormatName | undefined): Format {
  if (named !== undefined) return findFormat(named);
  const detected = detectFormat(file);
  if (detected.kind === "one") return detected.format;
  const claims = detected.claims.map(({ format, detection }) => ({ format: format.name, why: detection.why }));
  const several = detected.kind === "several";
  throw new HoldfastError({
    code: "FORMAT_UNKNOWN",
    message: several
      ? `${file.path} may be ${claims.map(({ format }) => format).join(" or ")}`
      : `${file.path} is not in a known format`,
    hint: several
      ? `Give the format: --format ${claims[0]?.format ?? ""}.`
      : `If you know the format, give it: --format ${FORMATS.map(({ name }) => name).join(" | ")}.`,
    data: { file: file.path, several, claims },
  });
}
