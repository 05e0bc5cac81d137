import { HoldfastError } from "../error.ts";
import { RUN_ID } from "../run/run.ts";

/** What a person types to name a run or a checkpoint: `RUN`, `RUN@7`, `RUN@latest`, `RUN@tag`, `@7`, `@latest`, `@tag`. */
export interface Address {
  /** null: the run is to be told from the surroundings (worktree, only run of the store). */
  readonly run: string | null;
  readonly at: AddressAt;
}

export type AddressAt =
  | { readonly kind: "none" }
  | { readonly kind: "sequence"; readonly sequence: number }
  | { readonly kind: "latest" }
  | { readonly kind: "tag"; readonly name: string };

/** Throws USAGE. One spelling for one address: `formatAddress(parseAddress(text))` is `text`. */
export function parseAddress(text: string): Address {
  // Also from JavaScript: a library user may hand in anything.
  if (typeof text !== "string") throw badAddress(String(text), "it is not a text");
  const sign = text.indexOf("@");
  const run = sign === -1 ? text : text.slice(0, sign);
  if (run === "" && sign === -1) throw badAddress(text, "it is empty");
  if (run !== "" && !RUN_ID.test(run)) {
    throw badAddress(text, `${JSON.stringify(run)} cannot be a run id (lower-case letters, digits and hyphens)`);
  }
  return { run: run === "" ? null : run, at: sign === -1 ? { kind: "none" } : parseAt(text, text.slice(sign + 1)) };
}

export function formatAddress(address: Address): string {
  const run = address.run ?? "";
  switch (address.at.kind) {
    case "none":
      return run;
    case "sequence":
      return `${run}@${address.at.sequence}`;
    case "latest":
      return `${run}@latest`;
    case "tag":
      return `${run}@${address.at.name}`;
  }
}

const TAG = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/;

/**
 * The one allow-list for tags: safe in a ref, a path and a URL, and never mistaken for a sequence or for `latest`.
 * Throws USAGE.
 */
export function checkTagName(name: string): string {
  const why = tagProblem(name);
  if (why === null) return name;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(name)} cannot be a tag: ${why}`,
    hint: "Use 1 to 64 letters, digits, dots, hyphens or underscores, beginning and ending with a letter or digit.",
  });
}

function tagProblem(name: string): string | null {
  if (typeof name !== "string") return "it is not a text";
  if (!TAG.test(name)) return "it holds characters that a tag may not have, or is too long";
  if (/^[0-9]+$/.test(name)) return "digits alone name a sequence";
  if (name.toLowerCase() === "latest") return "latest names the newest checkpoint";
  if (name.includes("..") || /\.lock$/i.test(name)) return "git could not carry that name";
  return null;
}

function parseAt(text: string, at: string): AddressAt {
  if (at === "") throw badAddress(text, "nothing follows the @");
  if (at === "latest") return { kind: "latest" };
  if (/^[0-9]+$/.test(at)) {
    const sequence = Number(at);
    if (at.startsWith("0") || !Number.isSafeInteger(sequence)) {
      throw badAddress(text, `${at} is not a sequence (1, 2, 3 …)`);
    }
    return { kind: "sequence", sequence };
  }
  const why = tagProblem(at);
  if (why !== null) throw badAddress(text, `${JSON.stringify(at)} cannot be a tag: ${why}`);
  return { kind: "tag", name: at };
}

function badAddress(text: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(text)} does not name a run or a checkpoint: ${why}`,
    hint: "Write RUN, RUN@7, RUN@latest or RUN@tag; inside a run's worktree also @7, @latest or @tag.",
  });
}
