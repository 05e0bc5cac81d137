import { hash } from "node:crypto";
import type { Hasher } from "../core/json.ts";

export const sha256: Hasher = (data) => hash("sha256", data, "hex");
