import type { Stay } from "./stage/stay.ts";

/**
 * While `work` is under way, checkpoints are taken by the clock and for whoever asks. `before` brings up to date what they are to hold. When this
 * returns none is being taken.
 */
export async function withTimer<T>(
  stay: Stay,
  work: () => Promise<T>,
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<T> {
  const { writer } = stay;
  let brought = Promise.resolve();
  const bring = (): Promise<void> => {
    brought = before();
    return brought;
  };
  writer.beforeSave.add(bring);
  try {
    return await work();
  } finally {
    writer.beforeSave.delete(bring);
    // What it would still bring is older than what is known when the work has ended.
    await brought.catch(() => undefined);
    await writer.quiet();
  }
}
