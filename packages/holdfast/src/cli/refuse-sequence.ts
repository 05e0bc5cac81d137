import { parseAddress } from "../core/checkpoint/address.ts";
import { HoldfastError } from "../core/error.ts";

/** For commands about a whole run: RUN@7 would be answered as if @7 had not been typed. */
export function refuseSequence(
  address: string | undefined,
  command: "list" | "log" | "gc" | "verify" | "replay" | "rerun" | "trust",
): void {
  if (address === undefined || !address.includes("@")) return;
  const { run } = parseAddress(address);
  throw new HoldfastError({
    code: "USAGE",
    message: `${address} names a checkpoint, and holdfast ${command} takes a whole run`,
    hint: `Write \`holdfast ${command}${run === null ? "" : ` ${run}`}\`; \`holdfast show ${address}\` shows that one checkpoint.`,
  });
}
