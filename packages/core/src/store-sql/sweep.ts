// Frees chunks that no checkpoint and no journal entry needs, while others write.
//
// First the number of sweeps is raised, in a transaction of its own. A save that commits later marks every chunk it relies on with the new
// number; a save that committed earlier is found when the roots are read. So a chunk that no root needs and that has an older number is not
// needed. Only such chunks are deleted, in small transactions that check the number again.

import { sha256 } from "../json.ts";
import type { SweepReport } from "../store.ts";
import type { Driver } from "./driver.ts";
import { corrupt, loadChunks, parseCheckpointBody } from "./records.ts";
import { bytes, integer, text } from "./schema.ts";
import { type Reference, parseChunk, parseJson, referencesIn, unpackText } from "../chunks.ts";
import type { Group } from "./write.ts";

const PAGE = 64;
const DELETED_AT_ONCE = 256;

export async function sweep(driver: Driver, group: Group, params: { readonly dryRun: boolean }): Promise<SweepReport> {
  const under = params.dryRun
    ? Number.MAX_SAFE_INTEGER
    : await group.submit({ runs: [], sweep: "begin" }, async (writing) => writing.beginSweep());
  const live = await markLive(driver);
  const report = { chunks: 0, freedBytes: 0 };
  for (let after = 0; ;) {
    const rows = await driver.read((tx) =>
      tx.all(
        "SELECT place, digest, length(bytes) AS size FROM chunks WHERE place > ? AND sweep < ? ORDER BY place LIMIT ?",
        [after, under, DELETED_AT_ONCE],
      ),
    );
    const last = rows.at(-1);
    if (last === undefined) break;
    after = integer(last, "place");
    const dead = rows.filter((row) => !live.has(Buffer.from(bytes(row, "digest")).toString("base64url")));
    // In the order in which savers write chunks: otherwise the two could wait for each other.
    const inOrder = dead.toSorted((a, b) => Buffer.compare(bytes(a, "digest"), bytes(b, "digest")));
    const places = inOrder.map((row) => integer(row, "place"));
    const gone = params.dryRun || places.length === 0 ? new Set(places) : await remove(group, places, under);
    for (const row of dead) {
      if (!gone.has(integer(row, "place"))) continue;
      report.chunks += 1;
      report.freedBytes += integer(row, "size");
    }
  }
  if (report.chunks > 0 && !params.dryRun) await driver.compact();
  return Object.freeze(report);
}

function remove(group: Group, places: readonly number[], under: number): Promise<ReadonlySet<number>> {
  return group.submit({ runs: [] }, async ({ tx }) => {
    const sql = "DELETE FROM chunks WHERE place = ? AND sweep < ? RETURNING place";
    const rows = await Promise.all(places.map((place) => tx.all(sql, [place, under])));
    return new Set(rows.flat().map((row) => integer(row, "place")));
  });
}

/** Digests of all chunks that are needed. STORE_CORRUPT where a root or a chunk is damaged: what it needed is not known. */
async function markLive(driver: Driver): Promise<ReadonlySet<string>> {
  const live = new Set<string>();
  const seen = new Set<string>();
  for (let after = 0; ;) {
    const page = after;
    const last = await driver.read(async (tx) => {
      const rows = await tx.all(
        "SELECT place, kind, body, content FROM entries WHERE place > ? AND content IS NOT NULL ORDER BY place LIMIT ?",
        [page, PAGE],
      );
      let wanted: readonly Reference[] = rows.flatMap((row) => {
        const root = unpackText(bytes(row, "content"));
        if (text(row, "kind") === "checkpoint" && parseCheckpointBody(text(row, "body"), "").head.root !== sha256(root))
          throw corrupt("The planes of a checkpoint do not give their digest, so nothing can be freed safely");
        return referencesIn(parseJson(root), 0);
      });
      while (wanted.length > 0) {
        const fresh = wanted.filter(({ digest, height }) => !seen.has(`${digest} ${height}`));
        for (const { digest, height } of fresh) seen.add(`${digest} ${height}`);
        const texts = await loadChunks(tx, [...new Set(fresh.map(({ digest }) => digest))]);
        wanted = fresh.flatMap(({ digest, height }) => {
          const chunk = texts.get(digest);
          if (chunk === undefined) throw corrupt(`The chunk ${digest} is gone, so nothing can be freed safely`);
          live.add(digest);
          return referencesIn(parseChunk(chunk, digest), height);
        });
      }
      const end = rows.at(-1);
      return end === undefined ? null : integer(end, "place");
    });
    if (last === null) return live;
    after = last;
  }
}
