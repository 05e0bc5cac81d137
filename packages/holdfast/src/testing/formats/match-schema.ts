import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";

/** Paths at which a value does not fit a JSON Schema (2020-12), in the words that our published schemas use; others throw. */
export function misfits(schema: JsonObject, value: Json): readonly string[] {
  return check(schema, value, { root: schema, path: "" });
}

interface Place {
  readonly root: JsonObject;
  readonly path: string;
}

function check(schema: Json | undefined, value: Json, place: Place): readonly string[] {
  if (!isJsonObject(schema)) throw new TypeError(`no schema at ${place.path}`);
  return Object.entries(schema).flatMap(([word, given]) => checkWord(word, given, { schema, value, place }));
}

function checkWord(
  word: string,
  given: Json,
  at: { readonly schema: JsonObject; readonly value: Json; readonly place: Place },
): readonly string[] {
  const { schema, value, place } = at;
  const bad = [`${place.path || "/"} (${word})`];
  const fits = (part: Json): boolean => check(part, value, place).length === 0;
  const parts = isJsonArray(given) ? given : [];
  const unless = (is: boolean): readonly string[] => (is ? [] : bad);
  switch (word) {
    case "$schema":
    case "$comment":
    case "$defs":
    case "title":
    case "then":
      return [];
    case "$ref":
      return check(resolve(place.root, String(given)), value, place);
    case "type":
      return unless((parts.length > 0 ? parts : [given]).some((type) => isOfType(value, String(type))));
    case "const":
      return unless(value === given);
    case "enum":
      return unless(parts.includes(value));
    case "minimum":
      return unless(typeof value !== "number" || value >= Number(given));
    case "minItems":
      return unless(!isJsonArray(value) || value.length >= Number(given));
    case "pattern":
      return unless(typeof value !== "string" || new RegExp(String(given)).test(value));
    case "required":
      return unless(!isJsonObject(value) || parts.every((name) => Object.hasOwn(value, String(name))));
    case "allOf":
      return parts.flatMap((part) => check(part, value, place));
    case "anyOf":
      return unless(parts.some(fits));
    case "oneOf":
      return unless(parts.filter(fits).length === 1);
    case "not":
      return unless(!fits(given));
    case "if":
      return fits(given) ? check(schema["then"], value, place) : [];
    case "items":
      return isJsonArray(value) ? value.flatMap((item, index) => check(given, item, below(place, String(index)))) : [];
    case "properties":
      if (!isJsonObject(value) || !isJsonObject(given)) return [];
      return Object.entries(given).flatMap(([name, part]) => {
        const member = Object.hasOwn(value, name) ? value[name] : undefined;
        return member === undefined ? [] : check(part, member, below(place, name));
      });
    case "additionalProperties": {
      const known = isJsonObject(schema["properties"]) ? schema["properties"] : {};
      return unless(!isJsonObject(value) || Object.keys(value).every((name) => Object.hasOwn(known, name)));
    }
    default:
      throw new TypeError(`the schema uses ${word}, which is not known here`);
  }
}

function isOfType(value: Json, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return isJsonArray(value);
  if (type === "object") return isJsonObject(value);
  return type === (value === null ? "null" : typeof value);
}

function resolve(root: JsonObject, reference: string): Json | undefined {
  return reference
    .split("/")
    .slice(1)
    .reduce<Json | undefined>((at, part) => (isJsonObject(at) ? at[part] : undefined), root);
}

function below(place: Place, name: string): Place {
  return { ...place, path: `${place.path}/${name}` };
}
