import type { Transport } from "./transport.ts";

/** There is neither a program nor a token: everything is denied when it is first asked for, and says what would help. */
export function createNoLoginTransport(params: { readonly reason: string; readonly fix: string }): Transport {
  const { reason, fix } = params;
  const none: Transport = { name: "none", fix, send: async () => ({ kind: "no_login", reason }), marked: () => none };
  return none;
}
