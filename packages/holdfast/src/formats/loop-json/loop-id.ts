/** As published. Hardly any id that was ever given follows it. */
export const PUBLISHED_LOOP_ID = /^ralph-[a-z0-9-]+-[a-f0-9]{8}$/;

/** What may become the name of a directory: also dates, base 36, a bare UUID and a slug that came out empty. */
export function isUsableLoopId(id: string): boolean {
  return /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9_-])?$/.test(id) && !id.includes("..");
}
