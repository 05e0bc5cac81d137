import type { Scene } from "./scene.ts";
import { clearProcesses } from "./final-state.ts";

/** A copy of the template, to be used and thrown away. */
export async function inScene<T>(
  template: { readonly copy: () => Promise<Scene> },
  use: (scene: Scene) => Promise<T>,
): Promise<T> {
  if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
  else free -= 1;
  try {
    const scene = await template.copy();
    try {
      return await use(scene);
    } finally {
      await clearProcesses(scene);
      await scene.remove();
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
