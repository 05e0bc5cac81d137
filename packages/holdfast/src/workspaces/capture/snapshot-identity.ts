import { gitIdentity } from "../../system/git-identity.ts";

/** Who made a snapshot commit, and when. Fixed but for the time, so that the same snapshot has the same id. */
export function snapshotIdentity(epochSeconds: number): Readonly<Record<string, string>> {
  return gitIdentity({ name: "Holdfast", mail: "holdfast@localhost", epochSeconds });
}
