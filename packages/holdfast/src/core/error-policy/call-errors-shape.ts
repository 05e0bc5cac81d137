import { count, dictionary, list, nullable, object, oneOf, optional, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import type { CallErrors, ErrorVerdict } from "./call-errors.ts";

export const callErrorsShape: Shape<CallErrors> = object<CallErrors>({
  counts: dictionary(count),
  agents: list(text),
  retryAt: nullable(text),
  delayMs: count,
  until: nullable(text),
  abort: optional(text),
});

export const verdictShape: Shape<ErrorVerdict> = object<ErrorVerdict>({
  rule: text,
  action: oneOf<ErrorVerdict["action"]>({
    retry: true,
    fresh: true,
    fallback: true,
    park: true,
    escalate: true,
    abort: true,
  }),
  why: text,
});
