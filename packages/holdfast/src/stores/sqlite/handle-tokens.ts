import type { LeaseOwner, OwnerLiveness } from "@holdfast/core/lease";
import { type ProcessIdentity, livenessOf, randomId } from "@holdfast/platform/identity";

/**
 * Which handles made here can still write. Threads of one process, and copies of this module in one thread, know
 * nothing of each other's handles, so every token tells where it was made: of the others nothing is concluded.
 */
const HERE = randomId();
const open = new Set<string>();

/** Names a new handle. */
export function openToken(): string {
  const token = `${HERE}-${randomId()}`;
  open.add(token);
  return token;
}

/** The handle was closed, or refuses to write for ever: what it held is free. */
export function endToken(token: string): void {
  open.delete(token);
}

/** As livenessOf, but a handle of our own that has ended is dead although its process lives. */
export function ownerLiveness(owner: LeaseOwner, self: ProcessIdentity): OwnerLiveness {
  if (owner.token.startsWith(`${HERE}-`) && !open.has(owner.token)) return "dead";
  return livenessOf(owner, self);
}
