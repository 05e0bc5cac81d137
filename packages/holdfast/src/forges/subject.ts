import type { Subject } from "../ports/forge.ts";

export function numberOf(on: Subject): number {
  return typeof on === "number" ? on : on.pullRequest;
}
