import { type RetentionPolicy, defaultRetention } from "@holdfast/core/retention";

export const keepTwo: RetentionPolicy = { ...defaultRetention, perTrigger: {}, defaultKeep: { keep: 2, per: "run" } };
