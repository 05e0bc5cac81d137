import type { Detection, ForeignFile, Format } from "../format.ts";
import { decodeContextStore } from "./decode-context-store.ts";
import { encodeContextCheckpoint } from "./encode-context-store.ts";

/** What `to_dict` of orbiter's (later exo's) context checkpoints gives: one of them, or a list of versions. */
export const contextStore: Format = {
  name: "context-store",
  title: "orbiter context checkpoint (to_dict JSON)",
  capabilities: { many: true, directory: false, resumable: false },
  detect: detectContextStore,
  decode: decodeContextStore,
  encode: encodeContextCheckpoint,
};

/** By its text first: most files are declined without being parsed. */
function detectContextStore(file: ForeignFile): Detection {
  const no = { match: "no", why: "it has no task_id with a version, values or token_usage" } as const;
  const start = LOSSY.decode(file.bytes.subarray(0, LOOKED_AT)).trimStart();
  if (!/^\uFEFF?(?:\[\s*)?\{/.test(start)) return no;
  const whole = file.bytes.length <= LOOKED_AT;
  const members = whole ? membersOf(start) : null;
  const has = (name: string): boolean =>
    members === null ? new RegExp(`"${name}"\\s*:`).test(start) : members.includes(name);
  if (!has("task_id") || !has("version")) return no;
  const own = ["values", "token_usage"].some(has) || (members !== null && members.every((name) => MEMBERS.has(name)));
  return own ? { match: "yes", why: "it has a task_id, a version and values or token_usage" } : no;
}

const LOOKED_AT = 65_536;
const LOSSY = new TextDecoder();
const MEMBERS: ReadonlySet<string> = new Set(["task_id", "version", "values", "token_usage", "metadata", "created_at"]);

/** Of the document or of the first in the list; null where it is not JSON. */
function membersOf(text: string): readonly string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    const first: unknown = Array.isArray(value) ? value[0] : value;
    return typeof first === "object" && first !== null ? Object.keys(first) : [];
  } catch {
    return null;
  }
}
