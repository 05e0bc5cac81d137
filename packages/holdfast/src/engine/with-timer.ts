import type { Stay } from "./stay.ts";

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
  writer.beforeSave.add(before);
  try {
    return await work();
  } finally {
    writer.beforeSave.delete(before);
    await writer.quiet();
  }
}
