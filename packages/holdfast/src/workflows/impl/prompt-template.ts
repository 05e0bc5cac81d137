import { HoldfastError } from "../../core/error.ts";

/** Tokens are written `{{name}}` or `{#name#}`. */
const TOKEN = /\{\{\s*([a-z_]+)\s*\}\}|\{#\s*([a-z_]+)\s*#\}/g;

/** One pass over the template: what is inserted is never looked at again, so a token in an agent's output stays text. */
export function expandTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(TOKEN, (whole, braces: string | undefined, hashes: string | undefined) => {
    const name = braces ?? hashes ?? "";
    return Object.hasOwn(values, name) ? (values[name] ?? whole) : whole;
  });
}

/** CONFIG_INVALID naming every placeholder that is missing and every one that nothing fills. */
export function checkTemplate(params: {
  readonly what: string;
  readonly template: string;
  readonly required: readonly string[];
  readonly optional: readonly string[];
}): void {
  const used = new Set([...params.template.matchAll(TOKEN)].map((match) => match[1] ?? match[2] ?? ""));
  const missing = params.required.filter((name) => !used.has(name));
  const known = new Set([...params.required, ...params.optional]);
  const unknown = [...used].filter((name) => !known.has(name));
  if (missing.length === 0 && unknown.length === 0) return;
  const parts = [
    ...(missing.length === 0 ? [] : [`lacks the placeholders ${missing.join(", ")}`]),
    ...(unknown.length === 0 ? [] : [`has placeholders that nothing fills: ${unknown.join(", ")}`]),
  ];
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${params.what} ${parts.join(" and ")}`,
    hint: `Write each as {{name}} or {#name#}; known are ${[...known].join(", ")}.`,
    data: { missing, unknown },
  });
}
