import { openSqliteStore } from "../../stores/sqlite/open.ts";
import { HoldfastError } from "../../core/error.ts";
import { save } from "../store-contract/sample.ts";

/** A process of its own: writes checkpoints to a run, or tags or reads them, and says on stdout what was acknowledged. */
const [role = "", directory = "", run = "", count = "0"] = process.argv.slice(2);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

const store = await openSqliteStore({ directory, create: false });
try {
  if (role === "write") {
    await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
    const lease = await store.takeLease({ run, label: `writer ${process.pid}` });
    say(`epoch ${lease.epoch}`);
    const messages: string[] = [];
    for (let n = 1; n <= Number(count); n++) {
      messages.push(`message ${n} of ${process.pid}: ${"text ".repeat(n % 200)}`);
      // Small and large states in turn, so that rows, packs and indexes are all written.
      const { checkpoint } = await save(store, lease, { values: n % 2 === 0 ? { n } : { n, messages } });
      say(`saved ${checkpoint?.sequence}`);
    }
  } else if (role === "tag") {
    for (let n = 1; n <= Number(count); n++) {
      const latest = await store.latest(run);
      if (latest !== undefined) await store.tag({ run, sequence: latest.sequence, name: `t${n}`, move: true });
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    say("tagged");
  } else if (role === "read") {
    let seen = 0;
    for (let n = 1; n <= Number(count); n++) {
      const latest = await store.latest(run);
      const found = latest?.sequence ?? 0;
      if (found < seen) throw new Error(`latest went back from ${seen} to ${found}`);
      if (latest !== undefined && latest.planes.context.values["n"] === undefined)
        throw new Error("a part of a commit");
      seen = found;
      await new Promise((resolve) => setImmediate(resolve));
    }
    say(`read up to ${seen}`);
  } else if (role === "take") {
    const lease = await store.takeLease({ run, label: "taker" });
    say(`epoch ${lease.epoch}`);
  }
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error;
  say(`refused ${error.code}`);
}
await store.close();
