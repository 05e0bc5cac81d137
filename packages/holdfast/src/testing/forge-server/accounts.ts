import { Refused, type Incoming } from "./exchange.ts";

/** Who may do something at a loopback forge, and when what happens there happened. */
export class Accounts {
  /** Token → whose it is. */
  readonly tokens = new Map<string, { readonly login: string }>();
  #time = Date.UTC(2026, 2, 1);

  /** Each act has a time of its own, so that "newest first" is never a tie. */
  now(): string {
    this.#time += 1000;
    return new Date(this.#time).toISOString().replace(/\.\d+Z$/, "Z");
  }

  /** `refusal`: in the forge's own words. */
  requireLogin({ headers }: Incoming, refusal: string): string {
    const [, bearer] = /^(?:token|bearer) (.+)$/i.exec(headers["authorization"] ?? "") ?? [];
    const known = this.tokens.get(bearer ?? headers["private-token"] ?? "");
    if (known !== undefined) return known.login;
    throw new Refused({ status: 401, body: { message: refusal } });
  }
}
