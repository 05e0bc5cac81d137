import { HoldfastError } from "../../core/error.ts";
import type { ForeignFile, Format, FormatName } from "../../formats/format.ts";
import { detectFormat, FORMATS } from "../../formats/registry.ts";

export function formatNamed(name: FormatName): Format {
  const format = FORMATS.find((known) => known.name === name);
  if (format !== undefined) return format;
  throw new HoldfastError({
    code: "UNSUPPORTED",
    message: `This Holdfast cannot read or write ${name}`,
    hint: `It knows ${FORMATS.map((known) => known.name).join(", ")}.`,
  });
}

/** The named one, or the one that claims the file. FORMAT_UNKNOWN (data: the claims) when none or several do. */
export function chooseFormat(file: ForeignFile, named: FormatName | undefined): Format {
  if (named !== undefined) return formatNamed(named);
  const detected = detectFormat(file);
  if (detected.kind === "one") return detected.format;
  const claims = detected.claims.map(({ format, detection }) => ({ format: format.name, why: detection.why }));
  const several = detected.kind === "several";
  throw new HoldfastError({
    code: "FORMAT_UNKNOWN",
    message: several
      ? `${file.path} may be ${claims.map(({ format }) => format).join(" or ")}`
      : `${file.path} is in no format that is known here`,
    hint: several
      ? `Say which one it is: --format ${claims[0]?.format ?? ""}.`
      : `If you know better, say so: --format ${FORMATS.map(({ name }) => name).join(" | ")}.`,
    data: { file: file.path, several, claims },
  });
}
