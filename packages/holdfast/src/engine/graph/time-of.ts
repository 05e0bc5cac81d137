/** The context's time, as entries tell it. */
export function timeOf(context: { now(): number }): string {
  return new Date(context.now()).toISOString();
}
