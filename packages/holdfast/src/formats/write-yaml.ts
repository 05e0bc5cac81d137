import { stringify } from "yaml";
import type { ScalarTag, Tags } from "yaml";
import type { Json } from "../core/json.ts";

/**
 * Block YAML that readers of 1.2 and of 1.1 take for the same: what the older one would turn into a date, a truth value or
 * a number in base 60 is quoted. Lines are never folded, so a change of one word is a change of one line.
 */
export function writeYaml(value: Json): string {
  return stringify(value, {
    schema: "core",
    compat: "yaml-1.1",
    lineWidth: 0,
    aliasDuplicateObjects: false,
    customTags,
  });
}

/** Characters that some reader drops, folds or takes for the end of a line; the library writes several of them as they are. */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/;
// oxlint-disable-next-line no-control-regex
const UNSAFE_IN_JSON = /[\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/g;

/** A block that begins with white space needs an indentation mark, which the library does not always get right. */
function isUnsafe(value: string): boolean {
  const first = value.charCodeAt(0);
  return ((first === 0x20 || first === 0x09 || first === 0x0a) && value.includes("\n")) || UNSAFE.test(value);
}

function customTags(tags: Tags): Tags {
  return tags.map((tag) =>
    typeof tag === "object" && tag.collection === undefined && tag.tag === "tag:yaml.org,2002:str" ? quoting(tag) : tag,
  );
}

function quoting(tag: ScalarTag): ScalarTag {
  return {
    ...tag,
    stringify(item, ...rest) {
      const { value } = item;
      if (typeof value !== "string" || !isUnsafe(value)) return tag.stringify?.(item, ...rest) ?? String(value);
      return JSON.stringify(value).replace(
        UNSAFE_IN_JSON,
        (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
    },
  };
}
