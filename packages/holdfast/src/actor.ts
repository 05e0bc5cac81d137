/** Who acts: the name that the journal records for an answer, a signal, a lease or a tag when another program acts for the user. */
import { userInfo } from "node:os";
import type { Store } from "@holdfast/core/store";

/** Set by a program that runs a command for a user, such as the server of `holdfast ui`. */
export const ACTOR_VARIABLE = "HOLDFAST_BY";

type Env = Readonly<Record<string, string | undefined>>;

const MAX_NAME = 100;

/** The name in HOLDFAST_BY, without characters that could mislead a reader of the journal; undefined: the user acts directly. */
export function namedActor(env: Env): string | undefined {
  const name = (env[ACTOR_VARIABLE] ?? "")
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, "")
    .trim()
    .slice(0, MAX_NAME);
  return name === "" ? undefined : name;
}

/** The name of the user of this process. */
export function userName(unknown = "unknown user"): string {
  try {
    return userInfo().username;
  } catch {
    return unknown;
  }
}

/** The store, with the name on every lease and tag: the journal then says for each command who gave it. */
export function withActor(store: Store, by: string | undefined): Store {
  if (by === undefined) return store;
  return {
    ...store,
    takeLease: ({ label, ...params }) => store.takeLease({ ...params, label: `${label}, by ${by}` }),
    tag: (params) => store.tag({ ...params, by }),
    untag: (params) => store.untag({ ...params, by }),
  };
}
