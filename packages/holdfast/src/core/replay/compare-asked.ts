import { withoutNonces } from "../agent/fence.ts";
import { capture } from "../values/index.ts";
import { firstChange } from "./first-change.ts";
import type { FirstChange } from "./first-change.ts";
import type { AskedAgent } from "./recorded-call.ts";

/** Does the workflow ask an agent for what it asked for then? The prompt last: whatever else differs explains it. */
export function compareAsked(recorded: AskedAgent, asked: AskedAgent): FirstChange | null {
  const { prompt: then, ...before } = recorded;
  const { prompt: now, ...after } = asked;
  const change = firstChange(capture(before), capture(after));
  if (change !== null) return { ...change, field: change.field.replace(/^\//, "") };
  return withoutNonces(then) === withoutNonces(now) ? null : { field: "prompt", expected: then, actual: now };
}
