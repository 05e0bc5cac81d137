// The contract suites that users run against their own agents, stores and forges (`holdfast/testing`).

export { agentContract } from "./agent-contract.ts";
export type { AgentBehaviour, AgentCase, AgentHarness } from "./agent-contract.ts";
export { createSetClock, storeContract } from "./store-contract.ts";
export type { OwnerIdentity, SetClock, StoreCase, StoreHarness } from "./store-contract.ts";
export { forgeContract } from "./forge-contract.ts";
export type { ForgeCase, ForgeHarness } from "./forge-contract.ts";
