import { HoldfastError } from "../error.ts";
import { FINDING_KINDS } from "./finding.ts";
import type { FindingKind } from "./finding.ts";
import { nearest } from "../nearest.ts";
import type { Answer, Answers } from "./resume.ts";

/** From a command line: `issue_body_changed`, or `files_changed=put_back`. USAGE for anything else. */
export function parseAnswers(texts: readonly string[]): Answers {
  const answers: Partial<Record<FindingKind, Answer>> = {};
  for (const text of texts) {
    const [name = "", said = "accept"] = text.split("=");
    const kind = FINDING_KINDS.find((one) => one === name);
    if (kind === undefined) throw unknownKind(name);
    if (said !== "accept" && !(said === "put_back" && kind === "files_changed")) throw unknownAnswer(kind, said);
    answers[kind] = said;
  }
  return answers;
}

function unknownKind(name: string): HoldfastError {
  const [guess] = nearest(name, FINDING_KINDS);
  return new HoldfastError({
    code: "USAGE",
    message: `"${name}" is not a finding that could be accepted`,
    hint: guess === undefined ? `One of: ${FINDING_KINDS.join(", ")}.` : `Did you mean ${guess}?`,
  });
}

function unknownAnswer(kind: FindingKind, said: string): HoldfastError {
  const hint = kind === "files_changed" ? "Say files_changed or files_changed=put_back." : `Say ${kind} alone.`;
  return new HoldfastError({ code: "USAGE", message: `"${said}" is no answer to ${kind}`, hint });
}
