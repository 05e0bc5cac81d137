import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Shell } from "../../command.ts";
import { momentText } from "../show/fields.ts";

/**
 * Until the time that the run is parked until, which is returned: whoever wakes it names it, and wakes it only if that is what it still waits for. null, at
 * once: it waits for no time. The clock is asked again and again: it may be set, and the machine may sleep. Nothing is held meanwhile and nothing written, so
 * a kill loses nothing: the next one who waits does so for the rest. LEASE_HELD when somebody else took the run up.
 */
export async function waitForTime(
  shell: Shell,
  holdfast: Pick<Holdfast, "run" | "hasRoom">,
  run: string,
): Promise<string | null> {
  const until = await parkedUntil(holdfast, run);
  const { state } = await (await holdfast.run(run)).summary();
  if (state.kind === "parked" && state.on === "disk") return await waitForSpace(shell, holdfast, run);
  if (until === null || Date.parse(until) <= Date.now()) return until;
  shell.say(`Waiting for ${run} until ${momentText(until, shell.talk)} …`);
  for (let left = 1; left > 0; left = Date.parse(until) - Date.now()) {
    await sleep(Math.min(Math.max(left, MIN_MS), TICK_MS), undefined, { signal: shell.signal });
    if ((await parkedUntil(holdfast, run)) !== until) throw takenUp(run);
  }
  return until;
}

/** Until there is room again, however long that takes: no time of its own says when. */
async function waitForSpace(
  shell: Shell,
  holdfast: Pick<Holdfast, "run" | "hasRoom">,
  run: string,
): Promise<string | null> {
  const until = await parkedUntil(holdfast, run);
  if (await holdfast.hasRoom(run)) return until;
  shell.say(`Waiting for ${run} until there is space on the disk …`);
  while (!(await holdfast.hasRoom(run))) {
    await sleep(TICK_MS, undefined, { signal: shell.signal });
    if ((await parkedUntil(holdfast, run)) !== until) throw takenUp(run);
  }
  return until;
}

const TICK_MS = 1000;
const MIN_MS = 10;

/** null: it is not parked, or for something that comes at no time of its own. */
export async function parkedUntil(holdfast: Pick<Holdfast, "run">, run: string): Promise<string | null> {
  const { state } = await (await holdfast.run(run)).summary();
  return state.kind === "parked" ? state.until : null;
}

function takenUp(run: string): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} was taken up by somebody else while this command waited`,
    hint: `See where it stands: \`holdfast status ${run}\`.`,
    retry: "later",
    data: { run },
  });
}
