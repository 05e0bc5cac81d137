import type { Incoming, Reply } from "./exchange.ts";

/** One path of a loopback forge's API. `Context`: what it is about, found before. */
export interface Route<Context> {
  readonly method: string;
  readonly path: RegExp;
  run(call: RoutedCall<Context>): Promise<Reply>;
}

export type RoutedCall<Context> = Context & {
  readonly incoming: Incoming;
  /** Of the route's path. */
  readonly match: RegExpExecArray;
};

/** null: no route goes there. */
export async function follow<Context>(
  routes: readonly Route<Context>[],
  rest: string,
  context: Context & { readonly incoming: Incoming },
): Promise<Reply | null> {
  for (const route of routes) {
    const match = route.method === context.incoming.method ? route.path.exec(rest) : null;
    if (match !== null) return await route.run({ ...context, match });
  }
  return null;
}
