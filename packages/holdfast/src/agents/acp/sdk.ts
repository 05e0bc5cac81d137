/**
 * The protocol's own library. It is no dependency of ours: only who uses `acp:` needs it, and it is loaded when a call begins.
 * Types come from it where they are erased.
 */
export type AcpSdk = typeof import("@agentclientprotocol/sdk");

/** null: it is not installed. */
export async function loadAcpSdk(): Promise<AcpSdk | null> {
  try {
    return await import("@agentclientprotocol/sdk");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND") return null;
    throw error;
  }
}

export const INSTALL_SDK = "Install it beside holdfast: npm install @agentclientprotocol/sdk@2.4.0.";
