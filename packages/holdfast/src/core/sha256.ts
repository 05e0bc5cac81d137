import { hash } from "node:crypto";
import type { Hasher } from "./json.ts";

/** SHA-256 in hexadecimal. */
export const pureSha256: Hasher = (data) => hash("sha256", data, "hex");
