import { defaultRetention } from "../../../src/core/retention/retention.ts";
import type { RetentionPolicy } from "../../../src/core/retention/retention.ts";

export const keepTwo: RetentionPolicy = { ...defaultRetention, perTrigger: {}, defaultKeep: { keep: 2, per: "run" } };
