import { describe, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import type { Store } from "@holdfast/core/store";
import { type Recording, countedIn, record, saidBefore } from "./harness/record.ts";
import { prepared } from "./harness/subject.ts";
import { faultSuite } from "./harness/suite.ts";
import { type Bad, chooseNumbers, judgeSafely } from "./harness/sweep.ts";
import { trace } from "./harness/traced.ts";
import { writeWorld } from "./harness/world.ts";
import { openImpatiently } from "./judges/open-store.ts";
import { storeIn, storeSubject } from "./judges/store-subject.ts";
import { parsePrinted } from "./writers/printed.ts";
import { planesOf, RUN } from "./writers/scenario.ts";

const suite = faultSuite("frozen", "tracer");
const PAST = 6;

/** At an operation of the file system, or before the writer prints a line, which is between two transactions. */
interface Place {
  readonly at: number;
  readonly kinds?: readonly string[];
}

/** Runs the writer, freezes it at these places, lets `meanwhile` work, wakes it up, and judges the output of both. */
async function sweepFrozen(params: {
  readonly plan: "steady" | "other-host";
  readonly places: (recording: Recording) => readonly Place[];
  readonly meanwhile: (frozen: Frozen) => Promise<Meanwhile>;
  readonly judgeEnd: (end: End) => readonly string[];
}): Promise<void> {
  const subject = storeSubject(params.plan);
  const { root, earlier } = await prepared(subject);
  const command = await subject.command(root);
  const recording = await record({ command, root });
  const bad: Bad[] = [];
  const places = params.places(recording);
  for (const place of places) {
    writeWorld(root, recording.before);
    let other: Meanwhile = { printed: [], problems: ["the writer was never frozen"] };
    const whilePaused = async (): Promise<void> => {
      other = await params.meanwhile({
        root,
        exclusive: place.kinds === undefined && isExclusive(recording, place.at),
      });
    };
    const woken = await trace({ command, root, fault: { ...place, do: "pause", phase: "before", whilePaused } });
    const mine = woken.stdout.split("\n").filter((line) => line !== "");
    const problems = [
      ...other.problems,
      ...params.judgeEnd({ code: woken.code, mine, other: other.printed, stderr: woken.stderr }),
    ];
    // Both got "saved", so both must exist.
    problems.push(...(await judgeSafely(subject.judge(earlier), { root, printed: [...mine, ...other.printed] })));
    if (problems.length > 0)
      bad.push({ where: `frozen before ${JSON.stringify(place)} of ${countedIn(recording)}`, problems });
  }
  suite.check({ cases: places.length, states: places.length, bad });
}

/** Every line that the writer prints: two per save. */
function betweenTransactions(recording: Recording): readonly Place[] {
  return recording.operations.filter(({ kind }) => kind === "print").map((_, i) => ({ at: i + 1, kinds: ["print"] }));
}

function inOperations(recording: Recording, count: number): readonly Place[] {
  return chooseNumbers(recording, suite.chance("operations"), count).map((at) => ({ at }));
}

interface Frozen {
  readonly root: string;
  /** The writer creates or closes the store; SQLite locks out every other process then. */
  readonly exclusive: boolean;
}
interface Meanwhile {
  readonly printed: readonly string[];
  readonly problems: readonly string[];
}
interface End {
  readonly code: number | null;
  readonly mine: readonly string[];
  readonly other: readonly string[];
  readonly stderr: string;
}

describe("two processes, one of them frozen at any operation", () => {
  test("a live owner keeps its run; others read, are refused this run, and write another or must wait", async () => {
    const meanwhile = async ({ root, exclusive }: Frozen): Promise<Meanwhile> => {
      const problems: string[] = [];
      const opened = await attempt(openImpatiently(storeIn(root)));
      if (opened.kind === "refused") return shutOut(opened.code, exclusive);
      const store = opened.value;
      const read = await attempt(readPast(store));
      if (read.kind === "refused") problems.push(`READ: refused with ${read.code}`);
      const lease = await attempt(store.takeLease({ run: RUN, label: "an intruder" }));
      // Frozen before it took the lease, it has nothing to keep.
      if (lease.kind === "refused" && !["LEASE_HELD", "STORE_BUSY"].includes(lease.code))
        problems.push(`REFUSED: takeLease reports ${lease.code}`);
      if (lease.kind === "done") await store.releaseLease(lease.value);
      const beside = await attempt(saveBeside(store));
      if (beside.kind === "refused" && beside.code !== "STORE_BUSY")
        problems.push(`REFUSED: another run's save reports ${beside.code}`);
      await store.close();
      return { printed: [], problems };
    };
    const places = (recording: Recording): readonly Place[] => [
      ...inOperations(recording, 5),
      ...betweenTransactions(recording).slice(0, 2),
    ];
    const judgeEnd = ({ code, mine, stderr }: End): readonly string[] => {
      const lines = parsePrinted(mine);
      const saved = lines.filter((line) => line.kind === "saved").length;
      const refused = lines.flatMap((line) =>
        line.kind === "refused" ? [`REFUSED: the owner gets ${line.code}: ${line.what}`] : [],
      );
      return code === 0 && saved === 4 ? refused : [`STUCK: exit ${code} after ${saved} saves ${stderr}`, ...refused];
    };
    await sweepFrozen({ plan: "steady", places, meanwhile, judgeEnd });
  });

  test("an owner that was taken over is fenced: its late save is refused, and nothing of it is there", async () => {
    const meanwhile = async ({ root, exclusive }: Frozen): Promise<Meanwhile> => {
      const opened = await attempt(openImpatiently(storeIn(root)));
      if (opened.kind === "refused") return shutOut(opened.code, exclusive);
      const store = opened.value;
      try {
        const lease = await attempt(store.takeLease({ run: RUN, label: "the successor", staleAfterMs: 0 }));
        // A writer that is frozen inside a transaction keeps the database locked, so no other process can take over.
        if (lease.kind === "refused")
          return {
            printed: [],
            problems: lease.code === "STORE_BUSY" ? [] : [`REFUSED: takeLease reports ${lease.code}`],
          };
        const sequence = ((await store.latest(RUN))?.sequence ?? 0) + 1;
        const saved = await store.commit({
          lease: lease.value,
          checkpoint: { sequence, trigger: "manual", planes: planesOf(sequence) },
        });
        const line = { kind: "saved", sequence, digest: saved.checkpoint?.digest };
        return { printed: [JSON.stringify({ kind: "saving", sequence }), JSON.stringify(line)], problems: [] };
      } finally {
        await store.close();
      }
    };
    const places = (recording: Recording): readonly Place[] => [
      ...betweenTransactions(recording),
      ...inOperations(recording, 2),
    ];
    const judgeEnd = ({ code, mine, other, stderr }: End): readonly string[] => {
      const lines = parsePrinted(mine);
      if (code !== 0) return [`CRASHED: exit ${code} ${stderr}`];
      const refused = lines.flatMap((line) => (line.kind === "refused" ? [line.code] : []));
      const taken = parsePrinted(other).find((line) => line.kind === "saved");
      if (taken?.kind !== "saved")
        return refused.length === 0 ? [] : [`REFUSED: no process took over, but the owner gets ${refused.join()}`];
      const double = lines.some(
        (line) => line.kind === "saved" && line.sequence === taken.sequence && line.digest !== taken.digest,
      );
      if (double) return [`DOUBLED: ${taken.sequence} was acknowledged to both`];
      // Taken over before its first or after its last write, it has nothing to be refused.
      const wasOwner = lines.some((line) => line.kind === "saving" && line.sequence <= taken.sequence);
      const wasDone = lines.some((line) => line.kind === "saved" && line.sequence === PAST + 4);
      const fenced = refused.includes("LEASE_LOST");
      return !wasOwner || wasDone || fenced
        ? []
        : [`UNFENCED: the owner that lost its lease gets ${refused.join() || "nothing"}`];
    };
    await sweepFrozen({ plan: "other-host", places, meanwhile, judgeEnd });
  });
});

function shutOut(code: string, exclusive: boolean): Meanwhile {
  const allowed = exclusive && code === "STORE_BUSY";
  return { printed: [], problems: allowed ? [] : [`READ: the store cannot be opened while another works: ${code}`] };
}

/** Before its first save or after its last. */
function isExclusive(recording: Recording, at: number): boolean {
  const done = recording.operations.findIndex((operation) => operation.number === at);
  const printed = parsePrinted(saidBefore(recording, done));
  const saved = printed.filter((line) => line.kind === "saved").length;
  return saved === 4 || !printed.some((line) => line.kind === "saving");
}

async function readPast(store: Store): Promise<void> {
  for (let sequence = 1; sequence <= PAST; sequence += 1) await store.getCheckpoint({ run: RUN, sequence });
  await store.listRuns();
}

async function saveBeside(store: Store): Promise<void> {
  await store.createRun({ id: "beside", workflow: "none", work: { kind: "none" } });
  const lease = await store.takeLease({ run: "beside", label: "beside" });
  await store.commit({ lease, checkpoint: { trigger: "manual", planes: planesOf(1) } });
}

type Attempt<T> = { readonly kind: "done"; readonly value: T } | { readonly kind: "refused"; readonly code: string };

async function attempt<T>(work: Promise<T>): Promise<Attempt<T>> {
  try {
    return { kind: "done", value: await work };
  } catch (error) {
    return { kind: "refused", code: error instanceof HoldfastError ? error.code : String(error) };
  }
}
