import type { RetryPlan } from "./policy.ts";

export type Backoff = "none" | "linear" | "exponential" | "fibonacci";

export interface DelayParams {
  /** Further tries after the first. */
  readonly retries: number;
  readonly initialMs: number;
  readonly multiplier: number;
  readonly capMs: number;
  readonly backoff?: Backoff;
}

/** The waits before each further try, none of them longer than the cap. */
export function delaysOf({ retries, initialMs, multiplier, capMs, backoff = "exponential" }: DelayParams): number[] {
  return Array.from({ length: retries }, (_, at) =>
    Math.min(capMs, Math.round(initialMs * factorOf(backoff, at, multiplier))),
  );
}

/** `random` from 0 to 1. Only ever shorter: the cap holds, and a wait that nobody shortened is the plan's own. */
export function delayAt({ delaysMs, jitter }: RetryPlan, at: number, random: number): number | undefined {
  const delay = delaysMs[at];
  return delay === undefined ? undefined : Math.round(delay * (1 - jitter * random));
}

/** Letters and digits as a fraction from 0 to 1: randomness is handed in as text. */
export function fractionOf(text: string): number {
  let fraction = 0;
  for (const character of [...text].toReversed()) fraction = (fraction + Number.parseInt(character, 36)) / 36;
  return Number.isFinite(fraction) ? fraction : 0;
}

function factorOf(backoff: Backoff, at: number, multiplier: number): number {
  switch (backoff) {
    case "none":
      return 1;
    case "linear":
      return at + 1;
    case "exponential":
      return multiplier ** at;
    case "fibonacci":
      return fibonacci(at + 1);
  }
}

function fibonacci(at: number): number {
  let [last, now] = [0, 1];
  for (let count = 1; count < at; count += 1) [last, now] = [now, last + now];
  return now;
}
