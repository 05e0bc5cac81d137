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

/** As many at once as the machine has cores for, whoever asks. */
const AT_ONCE = 2;
let free = AT_ONCE;
const waiting: (() => void)[] = [];
