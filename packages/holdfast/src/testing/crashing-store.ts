import type { Store } from "../ports/store.ts";

export interface CrashingStore extends Store {
  /** Commits that were called. */
  readonly commits: number;
}

/**
 * A store whose process dies at its n-th commit, before it or after it is durable. `die` does not return; where it does
 * (a death that is only played), nothing that is called afterwards is ever answered.
 */
export function createCrashingStore(
  store: Store,
  params: { readonly at: number; readonly moment: "before" | "after"; readonly die: () => void },
): CrashingStore {
  let commits = 0;
  let dead = false;
  const never = new Promise<never>(() => {});
  const die = (): Promise<never> => {
    dead = true;
    params.die();
    return never;
  };
  const dying: Pick<Store, "commit"> & { readonly commits: number } = {
    get commits() {
      return commits;
    },
    async commit(commit) {
      if (dead) return await never;
      commits += 1;
      const mine = commits === params.at;
      if (mine && params.moment === "before") return await die();
      const committed = await store.commit(commit);
      return mine ? await die() : committed;
    },
  };
  return new Proxy(store, {
    get: (target, key) => {
      if (key in dying) return Reflect.get(dying, key);
      if (dead) return () => never;
      return Reflect.get(target, key);
    },
  }) as CrashingStore;
}
