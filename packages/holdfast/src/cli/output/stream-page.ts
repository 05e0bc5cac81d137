import { randomInt } from "node:crypto";
import type { Page } from "./page.ts";
import { onlyAscii, pageWidth, wantsColor } from "./page.ts";

/** Of this process. The sinks of its standard streams know it. */
export const SEAL = String(randomInt(10 ** 11, 10 ** 12));

/** The page that a standard stream is. */
export function pageOf(params: {
  readonly stream: { readonly isTTY?: boolean; readonly columns?: number };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly noColorFlag: boolean;
  readonly program: string;
}): Page {
  const terminal = params.stream.isTTY === true;
  return {
    width: pageWidth({ env: params.env, columns: terminal ? params.stream.columns : undefined }),
    color: wantsColor({ env: params.env, terminal, noColorFlag: params.noColorFlag }),
    ...(onlyAscii({ env: params.env, terminal }) ? { ascii: true as const } : {}),
    seal: SEAL,
    terminal,
    now: Date.now(),
    offset: (at) => -new Date(at).getTimezoneOffset(),
    program: params.program,
  };
}
