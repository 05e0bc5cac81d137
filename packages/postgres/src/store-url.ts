import { join, resolve } from "node:path";
import { usageError } from "@holdfast/platform/error";
import { xdgHome } from "@holdfast/platform/files";

/* What can be said about a store's URL without loading the driver. */

export function isStoreUrl(store: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(store);
}

/** A scheme has two characters at least: `C://` is a drive of Windows. `jdbc:postgresql://` counts. */
const URL_LIKE = /^([a-z][a-z0-9+.:-]+):\/\//i;
/** A URL without its slashes or its scheme: `postgres:USER:PASSWORD@HOST/DATABASE`, `USER:PASSWORD@HOST/DATABASE`. */
const URL_CUT = /^postgres(?:ql)?:|^[^/]*:[^/]*@/i;

/**
 * The directory that `given` names from `directory`, or the URL of a store. Throws USAGE for whatever else could be a URL: as a directory, it
 * would show its password in a name. `source` is what the user wrote it in, such as HOLDFAST_STORE.
 */
export function resolvePlace(directory: string, given: string, source: string): string {
  const url = given.trim();
  if (isStoreUrl(url)) return url;
  const scheme = URL_LIKE.exec(url)?.[1];
  if (scheme === undefined && !URL_CUT.test(url)) return resolve(directory, given);
  const found = scheme === undefined ? "no path, and no whole URL" : `a URL of an unknown kind, ${scheme}://…`;
  throw usageError(
    `${source} is ${found}`,
    "Write postgres://USER@HOST/DATABASE, or the path of a directory. A relative path that looks like a URL begins with ./",
  );
}

/** For messages and files: no password, also of a URL that cannot be parsed or has another scheme. */
export function withoutPassword(store: string): string {
  if (!URL_LIKE.test(store)) return store;
  return store
    .replace(/^([a-z][a-z0-9+.:-]+:\/\/[^:@/?#]*):.*@/i, "$1@")
    .replaceAll(/([?&](?:ssl)?password=)[^&#]*/gi, "$1***");
}

/** Where this machine keeps what belongs to a store in a database, by the store's id: process locks, logs, layouts, the high-water mark. */
export function stateDirectory(id: string, home = xdgHome(process.env, "XDG_STATE_HOME")): string {
  return join(home, "holdfast/stores", id);
}
