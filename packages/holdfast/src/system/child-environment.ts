import { MARK_VARIABLE } from "./process-table.ts";

/**
 * The environment of a child that works for a run. Ours is the base, less what points git at some repository (we may run inside a hook)
 * and less what an outer Holdfast said about its own run. The mark comes last: nothing may take its place.
 */
export function childEnvironment(params: {
  readonly base: NodeJS.ProcessEnv;
  readonly mark: string;
  readonly env: Readonly<Record<string, string>>;
}): NodeJS.ProcessEnv {
  const kept = Object.entries(params.base).filter(([name]) => !/^(?:GIT|HOLDFAST)_/i.test(name));
  return { ...Object.fromEntries(kept), ...params.env, [MARK_VARIABLE]: params.mark };
}
