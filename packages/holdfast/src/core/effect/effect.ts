import type { Digest, Json, JsonObject } from "../json.ts";

/** A change to the outside world. The key comes from run, stage and purpose, never from text a model wrote. */
export interface Effect {
  readonly run: string;
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly payload: Digest;
  readonly state: EffectState;
}

export type EffectState =
  | { readonly kind: "intended"; readonly at: string }
  | { readonly kind: "unknown"; readonly at: string; readonly reason: string }
  | { readonly kind: "done"; readonly at: string; readonly adopted: boolean; readonly receipt: Json }
  | { readonly kind: "failed"; readonly at: string; readonly reason: string; readonly detail?: Json };

/** Bodies of the three effect entries; the effects table is their fold. */
export type EffectIntended = {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  readonly payload: Digest;
  readonly detail: JsonObject;
};
export type EffectUnknown = { readonly key: string; readonly reason: string };
export type EffectSettled =
  | { readonly key: string; readonly outcome: "done"; readonly adopted: boolean; readonly receipt: Json }
  | { readonly key: string; readonly outcome: "failed"; readonly reason: string; readonly detail?: Json };
