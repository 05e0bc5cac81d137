import type { Json } from "../core/json.ts";

/**
 * Writes a field into a document that is being built: in its place where the document has it, at the end otherwise.
 * With `byDefault` a field that is missing stays missing while it would say what its absence says.
 */
export function putField(
  document: Record<string, Json>,
  field: { readonly key: string; readonly value: Json; readonly byDefault?: Json },
): void {
  const { key, value, byDefault } = field;
  if (!Object.hasOwn(document, key) && byDefault !== undefined && JSON.stringify(value) === JSON.stringify(byDefault))
    return;
  document[key] = value;
}
