import type { Json } from "../json.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { MESSAGE_SHAPE } from "./message-shape.ts";
import type { Message } from "./message.ts";

export type MessageFault =
  | "NOT_JSON" // holds what JSON cannot carry
  | "TOO_LARGE"
  | "NOT_A_MESSAGE" // no object, or no type that there is
  | "BAD_FIELD"
  | "BAD_ID"
  | "BAD_TIME";

export type ParsedMessage =
  | { readonly kind: "message"; readonly message: Message }
  | {
      readonly kind: "refused";
      readonly code: MessageFault;
      /** JSON pointer to what is wrong. */
      readonly path: string;
      readonly why: string;
    };

/** Anybody may have written it. What passes is a message whole and no larger than a message may be. */
export function parseMessage(value: unknown): ParsedMessage {
  const size = sizeOf(value);
  if (size === null) return refused("NOT_JSON", "", "it holds what JSON cannot carry");
  if (size > MAX_CHARACTERS) return refused("TOO_LARGE", "", `it has ${size} characters, more than ${MAX_CHARACTERS}`);
  const misfit = MESSAGE_SHAPE(value);
  if (misfit !== null) {
    const code = misfit.path === "" || misfit.path === "/type" ? "NOT_A_MESSAGE" : "BAD_FIELD";
    return refused(code, misfit.path, `${misfit.expected} belongs there`);
  }
  // The shape found nothing wrong.
  const message = value as Message;
  if (!MESSAGE_ID.test(message.id)) return refused("BAD_ID", "/id", "MSG-, a time in milliseconds and 8 hex digits");
  if (Number.isNaN(Date.parse(message.timestamp))) return refused("BAD_TIME", "/timestamp", "a time belongs there");
  for (const name of ["from", "to"] as const) {
    if (message[name].trim() === "") return refused("BAD_FIELD", `/${name}`, "a name belongs there");
  }
  if (message.correlation === message.id) return refused("BAD_FIELD", "/correlation", "a message cannot answer itself");
  return { kind: "message", message };
}

const MESSAGE_ID = /^MSG-\d{1,16}-[0-9a-f]{8}$/;
/** A prompt with an issue and its knowledge fits many times over; a log that somebody pasted does not. */
const MAX_CHARACTERS = 1_000_000;

function sizeOf(value: unknown): number | null {
  try {
    // What is not JSON is refused by the writer, whatever its type claims.
    return canonicalJson(value as Json).length;
  } catch {
    return null;
  }
}

function refused(code: MessageFault, path: string, why: string): ParsedMessage {
  return { kind: "refused", code, path, why };
}
