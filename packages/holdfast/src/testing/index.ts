export { createSetClock, storeContract } from "./store-contract.ts";
export type { OwnerIdentity, SetClock, StoreCase, StoreHarness } from "./store-contract.ts";
