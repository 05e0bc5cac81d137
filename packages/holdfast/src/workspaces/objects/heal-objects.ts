import { randomBytes } from "node:crypto";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import type { CapturePlace } from "../capture/capture.ts";
import { isDamaged, loosePath } from "./loose-object.ts";
import { forgetIndexes } from "../indexes/private-index.ts";
import type { Repository } from "../repository.ts";

/**
 * Does the work again when it failed over a damaged loose object, with that object out of the way, so that git writes it anew from
 * the files. Such an object is worth nothing to anybody, but blocks every later save of the same content. It is moved into
 * our own folder, never deleted; packs are not touched. `work` must be safe to repeat.
 */
export async function healing<T>(place: CapturePlace, work: () => Promise<T>): Promise<T> {
  for (let rounds = 1; ; rounds++) {
    try {
      return await work();
    } catch (error) {
      // git stops at the first damaged object that it meets, so there may be one round for each.
      const moved = rounds < MAX_ROUNDS && (await setAside(place.repository, objectsNamedBy(error)).catch(() => false));
      if (!moved) throw error;
      await forgetIndexes(place.home);
    }
  }
}

/** Only a hint where to look: what is moved is decided by the object's own bytes. */
export function objectsNamedBy(error: unknown): readonly string[] {
  if (!(error instanceof HoldfastError) || error.code !== "GIT_FAILED") return [];
  const { stderr, missing } = error.data;
  const text = [error.message, stderr, ...(Array.isArray(missing) ? missing : [])].join("\n");
  const named = text.matchAll(/(?<![0-9a-f])([0-9a-f]{2})\/?([0-9a-f]{62}|[0-9a-f]{38})(?![0-9a-f])/g);
  return [...new Set(Array.from(named, ([, folder = "", rest = ""]) => folder + rest))];
}

const MAX_ROUNDS = 1000;

async function setAside(repository: Repository, ids: readonly string[]): Promise<boolean> {
  let moved = false;
  for (const id of ids) {
    if (!(await isDamaged(repository, id))) continue;
    const folder = join(repository.home, "damaged");
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // A name of its own each time: a rename onto an earlier one would delete that.
    await rename(loosePath(repository, id), join(folder, `${id}-${randomBytes(4).toString("hex")}`));
    moved = true;
  }
  return moved;
}
