import type { Place } from "./ground.ts";
import { clearProcesses } from "./witness.ts";

/** A copy of the ground, to be used and thrown away. */
export async function inPlace<T>(
  ground: { readonly copy: () => Promise<Place> },
  use: (place: Place) => Promise<T>,
): Promise<T> {
  if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
  else free -= 1;
  try {
    const place = await ground.copy();
    try {
      return await use(place);
    } finally {
      await clearProcesses(place);
      await place.remove();
    }
  } finally {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  }
}

/** A fixed limit over all callers, so that the suites do not overload the machine. */
const AT_ONCE = 2;
let free = AT_ONCE;
const waiting: (() => void)[] = [];
