import { scratchFolder } from "./scratch.ts";
import type { Judge } from "./sweep.ts";

/** Something that must survive: where it starts, what is done to it, and how it is judged afterwards. */
export interface Subject {
  /** Creates the state that the writer starts from; lines printed meanwhile count as printed before. */
  prepare(root: string): Promise<readonly string[]>;
  command(root: string): Promise<readonly string[]>;
  judge(earlier: readonly string[]): Judge;
}

/** A folder with the subject's beginning in it. */
export async function prepared(
  subject: Subject,
): Promise<{ readonly root: string; readonly earlier: readonly string[] }> {
  const root = scratchFolder("world");
  return { root, earlier: await subject.prepare(root) };
}
