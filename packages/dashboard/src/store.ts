// Small pieces of state that several parts of the page read: a value with listeners, settings of this browser, and the time.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: (value: T) => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let current = initial;
  const listeners = new Set<(value: T) => void>();
  return {
    get: () => current,
    set: (value) => {
      if (Object.is(value, current)) return;
      current = value;
      for (const listener of listeners) listener(value);
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(() => store.get());
  useEffect(() => {
    const update = (): void => setValue(() => store.get());
    update();
    return store.subscribe(update);
  }, [store]);
  return value;
}

/** Unlike `randomUUID`, also for a page that is neither of loopback nor of https. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A setting that this browser keeps. Without storage it lasts as long as the page. */
export function createSetting(name: string, initial: string): Store<string> {
  const key = `holdfast.${name}`;
  const store = createStore(read(key) ?? initial);
  store.subscribe((value) => {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Storage is full or forbidden.
    }
  });
  return store;
}

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** `auto`, `light` or `dark`. */
export const theme = createSetting("theme", "auto");
/** `on` or `off`: shortcuts of one key. */
export const singleKeys = createSetting("single-keys", "on");
/** `unified` or `split`: how diffs look where there is room. */
export const diffLook = createSetting("diff", "unified");
/** The runs that the user put off, with the time of the status that they had then. JSON. */
export const later = createSetting("later", "{}");
/** Addresses that the user marked for a comparison. */
export const marked = createStore<readonly string[]>([]);

export const paletteShown = createStore(false);

/** How the commands of each repository begin. */
export const programs = createStore<ReadonlyMap<string, string>>(new Map());

/** How a command for a run begins. `key`: of a repository or of a run. */
export function useProgram(key: string): string {
  return useStore(programs).get(key.split("/")[0] ?? "") ?? "holdfast";
}

/** The title of the run that is open; "" if it has none of its own. */
export const openTitle = createStore("");

/** What a screen reader announces. */
export const announcement = createStore("");

/** Times stop while the data is old: the moment that they stopped at. */
export const stoppedAt = createStore<number | null>(null);

/** The present time, renewed each `every` milliseconds while the page is visible. */
export function useNow(every: number): number {
  const stopped = useStore(stoppedAt);
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const tick = (): void => {
      if (document.visibilityState === "visible") setNow(Date.now());
    };
    tick();
    const timer = setInterval(tick, every);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }, [every]);
  return stopped ?? now;
}
