import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { giveOrder } from "../../give-order.ts";
import type { abortSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof abortSpec)["flags"]>): Promise<Exit> {
  return await giveOrder(shell, {
    kind: "abort",
    typed: input.operand(0),
    reason: input.text("reason") ?? "",
    now: !input.on("gently"),
  });
}
