/** Whoever has more comes first. Words for people, numbers for those who need more of them. */
export const PRIORITIES = { low: -10, normal: 0, high: 10 } as const;

const LIMIT = 100;

/** undefined: neither one of the words nor a whole number from -100 to 100. */
export function parsePriority(text: string): number | undefined {
  if (Object.hasOwn(PRIORITIES, text)) return PRIORITIES[text as keyof typeof PRIORITIES];
  return /^-?\d{1,3}$/.test(text) && Math.abs(Number(text)) <= LIMIT ? Number(text) : undefined;
}

export function priorityText(priority: number): string {
  const word = Object.entries(PRIORITIES).find(([, value]) => value === priority)?.[0];
  return word ?? String(priority);
}

/** A fact of the store, so that it can be changed while somebody else holds the run. */
export function priorityKey(run: string): string {
  return `priority/${run}`;
}

/** What the store has under that key; anything odd counts as normal. */
export function readPriority(value: string | undefined): number {
  return (value === undefined ? undefined : parsePriority(value)) ?? PRIORITIES.normal;
}
