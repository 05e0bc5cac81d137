import type { RunSession } from "../conduct/run-session.ts";

/**
 * No checkpoint that others ask for while files are put in place by us. Begun before the checkpoint that such work takes first: what was asked for until then
 * stands in the queue before it, and what is asked for later is refused.
 */
export async function placing<T>(writer: RunSession, work: () => Promise<T>): Promise<T> {
  writer.placing += 1;
  try {
    await writer.quiet();
    return await work();
  } finally {
    writer.placing -= 1;
  }
}
