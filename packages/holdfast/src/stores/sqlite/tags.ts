import type { DatabaseSync } from "node:sqlite";
import type { Job } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import type { Head } from "./witness/heads.ts";
import { findCheckpoint } from "./find-checkpoint.ts";
import type { Tombstones } from "./sweep/tombstones.ts";
import { integer, text } from "./columns.ts";
import { tagExists } from "@holdfast/core/store";

/** The fold of each run's tag entries. */
export interface Tags {
  get(run: number, name: string): number | undefined;
  /** Names by sequence, each list sorted. */
  bySequence(run: number): ReadonlyMap<number, readonly string[]>;
  put(run: number, name: string, sequence: number): void;
  remove(run: number, name: string): void;
}

export function createTags(db: DatabaseSync): Tags {
  const get = db.prepare("SELECT sequence FROM tags WHERE run = ? AND name = ?");
  const list = db.prepare("SELECT name, sequence FROM tags WHERE run = ? ORDER BY name");
  const put = db.prepare(
    "INSERT INTO tags (run, name, sequence) VALUES (?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET sequence = excluded.sequence",
  );
  const remove = db.prepare("DELETE FROM tags WHERE run = ? AND name = ?");
  return {
    get(run, name) {
      const row = get.get(run, name);
      return row === undefined ? undefined : integer(row, "sequence");
    },
    bySequence(run) {
      const names = new Map<number, string[]>();
      for (const row of list.iterate(run)) {
        const sequence = integer(row, "sequence");
        const found = names.get(sequence);
        if (found === undefined) names.set(sequence, [text(row, "name")]);
        else found.push(text(row, "name"));
      }
      return names;
    },
    put: (run, name, sequence) => void put.run(run, name, sequence),
    remove: (run, name) => void remove.run(run, name),
  };
}

interface TagParams {
  readonly run: string;
  readonly sequence: number;
  readonly name: string;
  readonly move: boolean;
  /** Other runs. */
  readonly from: readonly string[];
}

export function addTag(
  handle: Handle,
  books: { readonly tags: Tags; readonly tombstones: Tombstones },
  params: TagParams,
): Job<{ readonly head: Head | null; readonly losing: readonly (() => void)[] }, void> {
  const { tags } = books;
  return {
    plan() {
      const losing = params.from.map((run) => {
        const removal = removeTag(handle, tags, { run, name: params.name });
        const planned = removal.plan();
        return () => removal.apply(planned);
      });
      const head = handle.heads.of(params.run);
      const current = tags.get(head.no, params.name);
      if (current === params.sequence) return { head: null, losing };
      findCheckpoint(handle, books.tombstones, head, params.sequence);
      if (current !== undefined && !params.move)
        throw tagExists({ run: params.run, name: params.name, sequence: current });
      return { head, losing };
    },
    apply({ head, losing }) {
      for (const lose of losing) lose();
      if (head === null) return;
      tags.put(head.no, params.name, params.sequence);
      handle.append.outside(
        head,
        { kind: "tag.added", body: { name: params.name, sequence: params.sequence } },
        handle.now(),
      );
    },
  };
}

export function removeTag(
  handle: Handle,
  tags: Tags,
  params: { readonly run: string; readonly name: string },
): Job<Head | null, void> {
  return {
    plan() {
      const head = handle.heads.of(params.run);
      return tags.get(head.no, params.name) === undefined ? null : head;
    },
    apply(head) {
      if (head === null) return;
      tags.remove(head.no, params.name);
      handle.append.outside(head, { kind: "tag.removed", body: { name: params.name } }, handle.now());
    },
  };
}
