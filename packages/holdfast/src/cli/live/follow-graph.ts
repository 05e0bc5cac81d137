import type { Holdfast, ProgressEvent } from "../../app.ts";
import type { Reporter } from "./reporter.ts";

/**
 * Keeps the graph of a live view up to date: read from the journal after news, at most once in a while, and never again before the last reading
 * is over. Late by a moment is good enough for eyes; in the way of the work it never is.
 */
export function followGraph(
  holdfast: Pick<Holdfast, "graph">,
  reporter: Pick<Reporter, "graph">,
): { tell(event: ProgressEvent): void; close(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined;
  let reading: Promise<void> | undefined;
  let again = false;
  let running = false;
  let closed = false;
  let wait = SHORTEST_MS;
  const read = async (run: string): Promise<void> => {
    const from = performance.now();
    again = false;
    try {
      const found = await holdfast.graph(run);
      reporter.graph(found?.picture ?? null);
      running = (found?.picture.counts.running ?? 0) > 0;
    } catch {
      // What cannot be read now is shown as it was.
    }
    // A large graph may take long to read: a tenth of the time is enough for looking.
    wait = Math.max(SHORTEST_MS, (performance.now() - from) * 10);
    reading = undefined;
    if (again) plan(run, wait);
    // Without news the clocks of what runs go on all the same.
    else if (running) plan(run, Math.max(wait, CLOCK_MS));
  };
  const plan = (run: string, after: number): void => {
    if (closed || timer !== undefined || reading !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      reading = read(run);
    }, after);
    timer.unref();
  };
  return {
    tell(event) {
      // What an agent says moves no node.
      if (event.kind === "agent") return;
      if (!again && timer !== undefined) {
        clearTimeout(timer);
        timer = undefined;
      }
      again = true;
      plan(event.run, wait);
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      await reading;
    },
  };
}

const SHORTEST_MS = 300;
const CLOCK_MS = 5000;
