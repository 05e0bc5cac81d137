import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { layoutOf } from "./layout.ts";
import { openSqliteStore } from "./open.ts";
import { climb, LADDER, SCHEMA, schemaOf } from "./schema.ts";
import { collect } from "@holdfast/testing/store-contract/harness";
import { rejectsWith } from "@holdfast/testing/refuses";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

function golden(schema: number): string {
  return readFileSync(join(import.meta.dirname, "golden", `schema-${schema}.sql`), "utf8");
}

function lay(schema: number): string {
  const directory = join(scratchDirectory(onTestFinished), "store");
  mkdirSync(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec("PRAGMA journal_mode = WAL");
  db.exec(golden(schema));
  db.close();
  return directory;
}

/** What a database is made of, whatever way it came to be so. */
function shapeOf(db: DatabaseSync): readonly unknown[] {
  return db
    .prepare("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map(({ type, name, sql }) => [type, name, String(sql).replace(/\s+/g, " ")]);
}

test("every older schema there ever was is taken over, with all that is in it", async () => {
  for (let schema = 1; schema < SCHEMA; schema++) {
    const directory = lay(schema);
    const store = await openSqliteStore({ directory });
    onTestFinished(() => store.close());
    expect((await store.stats()).schema).toBe(SCHEMA);
    const run = await store.getRun("golden-run");
    expect(run).toMatchObject({
      checkpoints: 3,
      entries: 11,
      state: { kind: "waiting", for: "ci", reason: "waiting" },
      latest: { sequence: 4 },
    });
    expect((await store.latest("golden-run"))?.planes.context.values).toEqual({ n: 4 });
    const third = await store.getCheckpoint({ run: "golden-run", sequence: 3 });
    expect(third.tags).toEqual(["good"]);
    expect(third.planes.context.values["messages"]).toHaveLength(180);
    await rejectsWith("CHECKPOINT_DROPPED", () => store.getCheckpoint({ run: "golden-run", sequence: 2 }));
    expect((await store.listEffects("golden-run"))[0]?.state.kind).toBe("intended");
    expect(await store.getMeta("gc")).toBe("2026-03-04");
    const problems = (await collect(store.verify())).flatMap((event) =>
      event.kind === "problem" ? [event.problem.what] : [],
    );
    // The golden text has the database alone; what was beside it is told to be gone.
    expect(problems).toEqual([expect.stringMatching(/marker/), expect.stringMatching(/witness/)]);
    await store.quarantine({ run: "golden-run", sequences: [4], reason: "what the next schema brought" });
    expect((await store.latest("golden-run"))?.sequence).toBe(3);
  }
});

test("climbing the ladder from any rung gives the same database as making it anew", () => {
  const fresh = new DatabaseSync(":memory:");
  climb(fresh, { location: "memory", newId: "x" });
  for (let schema = 1; schema < SCHEMA; schema++) {
    const old = new DatabaseSync(":memory:");
    old.exec(golden(schema));
    climb(old, { location: "memory", newId: "x" });
    expect(schemaOf(old)).toBe(SCHEMA);
    expect(shapeOf(old)).toEqual(shapeOf(fresh));
    climb(old, { location: "memory", newId: "x" });
  }
});

test("a step that fails leaves the schema it came from", () => {
  const db = new DatabaseSync(":memory:");
  db.exec(golden(1));
  db.exec("CREATE TABLE quarantine (in_the_way)");
  expect(() => climb(db, { location: "memory", newId: "x" })).toThrow(/already exists/);
  expect(schemaOf(db)).toBe(1);
  expect(db.isTransaction).toBe(false);
});

test("there is a golden database for every schema but the newest", () => {
  expect(LADDER.length).toBe(SCHEMA);
  for (let schema = 1; schema < SCHEMA; schema++) {
    const path = join(import.meta.dirname, "golden", `schema-${schema}.sql`);
    expect(existsSync(path) && statSync(path).size > 1000, path).toBe(true);
  }
});
