import { HoldfastError } from "../../core/error.ts";

/** WORKSPACE_BUSY where git is in the middle of something: files put there would become a part of it. */
export function refuseBusy(
  root: string,
  { operation }: { readonly operation: string | null },
  then: "graft" | "restore",
): void {
  if (operation === null) return;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `A ${operation} is under way in ${root}`,
    hint: `Finish it or abort it (git ${operation} --abort), then ${then}.`,
    retry: "later",
  });
}
